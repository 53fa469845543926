import { useMutation, useSubscription } from 'urql'
import { graphql } from './graphql.ts'

// gql.tada infers the types of results and variables from the schema.
const WATCH = graphql(`
  subscription Watch($name: String!) {
    counters(names: [$name], namespace: "booksales") { id revision value }
  }
`)

const BUY = graphql(`
  mutation Buy($name: String!, $key: String!) {
    increment(name: $name, namespace: "booksales", idempotencyKey: $key) { value valueIn(period: MONTH) }
  }
`)

export function Book({ name }: { name: string }) {
  const [{ data: watched }] = useSubscription({ query: WATCH, variables: { name } })
  const [{ data: bought, error, fetching }, buy] = useMutation(BUY)
  const sold = watched?.counters?.[0]
  const purchase = bought?.increment
  return (
    <main>
      <h1>{name}</h1>
      <p>{sold ? `${sold.value} sold` : 'Loading…'}</p>
      <button type="button" disabled={fetching} onClick={() => buy({ name, key: crypto.randomUUID() })}>
        Buy
      </button>
      <p>
        <output>
          {error?.message ??
            (purchase && `You are buyer ${purchase.value}, number ${purchase.valueIn} this month.`)}
        </output>
      </p>
    </main>
  )
}
