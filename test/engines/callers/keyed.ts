import { randomUUID } from 'node:crypto'
import { type Caller, noteUnexpected } from '../caller.ts'
import { NAMESPACE } from './namespace.ts'

interface Numbered {
  result: { value: number; replayed: boolean }
}

const INCREMENT = `mutation($key: String!) {
  result: increment(name: "keyed", namespace: "${NAMESPACE}", idempotencyKey: $key) { value replayed }
}`
const NEXT = `mutation($key: String!) {
  result: nextInSequence(name: "keyed", group: "g", namespace: "${NAMESPACE}", idempotencyKey: $key) { value replayed }
}`

/** Calls with a key, sent to one server after the other until there is an answer, and at times once more. */
export async function countKeyed(caller: Caller): Promise<void> {
  const { random, book, journal, server, other } = caller
  const [query, kind, name] =
    random.below(2) === 0
      ? ([INCREMENT, 'counters with keys', 'keyed'] as const)
      : ([NEXT, 'tickets with keys', 'keyed/g'] as const)
  const key = randomUUID()
  const [first, second] = random.below(2) === 0 ? [server, other] : [other, server]
  const outcome = await caller.insist<Numbered>(query, { key }, first)
  if (outcome?.kind !== 'answered') return noteUnexpected(caller, kind, outcome)
  const { value } = outcome.data.result
  book.answered(kind, name, value - 1, value)
  if (random.below(4) > 0) return
  const again = await caller.insist<Numbered>(query, { key }, second)
  if (again?.kind !== 'answered') return noteUnexpected(caller, kind, again)
  const { result } = again.data
  if (result.value !== value || !result.replayed)
    journal.wrong.push(`${kind}: ${value}, and when sent again ${JSON.stringify(result)}`)
}
