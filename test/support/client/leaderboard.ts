import { startService } from '../server/service.ts'

export const LIST = `query($orderBy: CounterOrder!, $prefix: String! = "", $first: Int, $after: String, $last: Int, $before: String) {
  namespace(name: "n") {
    counters(orderBy: $orderBy, prefix: $prefix, first: $first, after: $after, last: $last, before: $before) {
      nodes { name value updatedAt }
      edges { cursor }
      pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
    }
  }
}`

export const ORDERS = ['VALUE_DESC', 'VALUE_ASC', 'UPDATED_AT_DESC'] as const

export async function listedService() {
  const service = await startService()
  const list = async (variables: Record<string, unknown>) =>
    (await service.ask(LIST, variables)).namespace.counters
  const set = (values: Record<string, number>) =>
    service.ask(
      'mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes, namespace: "n") { value } }',
      {
        changes: Object.entries(values).map(([name, delta]) => ({ name, delta })),
      },
    )
  return { ...service, list, set }
}

export const namesOf = (page: { nodes: { name: string }[] }) => page.nodes.map(({ name }) => name)
