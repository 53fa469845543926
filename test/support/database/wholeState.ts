import type { Client } from '../client/client.ts'

const COUNTER = `name value held heldDown minValue maxValue overflow limits { period max used held } slots oncePer timeZone periods { period keepDays } createdAt updatedAt
  holds(first: 20) { nodes { state expiresAt deltas { delta } } }
  hour: valueIn(period: HOUR) day: valueIn(period: DAY) week: valueIn(period: WEEK)
  hours: history(period: HOUR, last: 50) { start end value } days: history(period: DAY, last: 70) { start end value }
  weeks: history(period: WEEK, last: 10) { start value } months: history(period: MONTH, last: 4) { start value }
  years: history(period: YEAR, last: 2) { start value }`

const SEQUENCE = `name startValue step minValue maxValue cycle format restartEvery allowRepeats timeZone gapless createdAt
  groups(first: 100) { nodes { name lastValue lastFormatted nextValue nextFormatted updatedAt } }`

/**
 * All that callers can read of a database, but revisions: also what they are refused, such as totals that are too large.
 *
 * @param ids of reservations and holds
 */
export async function wholeState(
  { ask, send }: Pick<Client, 'ask' | 'send'>,
  namespaces: readonly string[],
  ids: readonly string[] = [],
): Promise<unknown> {
  const state: Record<string, unknown> = {}
  for (const name of namespaces) {
    const { data, errors } = await send(
      `query($name: String!) {
        namespace(name: $name) {
          timeZone periods { period keepDays } leaderboards
          top: counters(first: 100, orderBy: VALUE_DESC) { nodes { value } }
          sequences(first: 100) { nodes { ${SEQUENCE} } }
        }
      }`,
      { name },
    )
    if (!data?.namespace) throw new Error(`Refused: ${JSON.stringify(errors)}`)
    state[name] = [data.namespace, reasons(errors), await countersOf(send, name)]
  }
  const { nodes } = await ask(
    `query($ids: [ID!]!) {
      nodes(ids: $ids) {
        ... on Reservation { id value formatted state expiresAt }
        ... on Hold { id state expiresAt deltas { delta counter { name } } }
      }
    }`,
    { ids },
  )
  return { ...state, nodes }
}

/** All counters of a namespace, in pages that are within the limits of a request. */
async function countersOf(send: Client['send'], name: string): Promise<unknown[]> {
  const pages: unknown[] = []
  for (let after: string | null = null; ; ) {
    const { data, errors } = await send(
      `query($name: String!, $after: String) {
        namespace(name: $name) {
          counters(first: 3, after: $after) { pageInfo { hasNextPage endCursor } nodes { ${COUNTER} } }
        }
      }`,
      { name, after },
    )
    if (!data?.namespace?.counters) throw new Error(`Refused: ${JSON.stringify(errors)}`)
    const { nodes, pageInfo } = data.namespace.counters
    pages.push([nodes, reasons(errors)])
    if (!pageInfo.hasNextPage) return pages
    after = pageInfo.endCursor
  }
}

function reasons(errors: readonly { message: string; path?: unknown }[] | undefined) {
  return errors?.map(({ message, path }) => [message, path])
}
