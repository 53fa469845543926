import { randomUUID } from 'node:crypto'
import { type Caller, noteUnexpected } from '../caller.ts'
import { NAMESPACE } from './namespace.ts'

const INCREMENT_MANY = `mutation($changes: [CounterDeltaInput!]!, $key: String) {
  changes: incrementMany(changes: $changes, namespace: "${NAMESPACE}", idempotencyKey: $key) { value }
}`

const CARTS = {
  carts: ['cart a', 'cart b', 'cart c'],
  'carts with keys': ['keyed cart a', 'keyed cart b', 'keyed cart c'],
}

/** Carts of the same counters in any order: they are changed together, so all show the same number. */
export async function fillCart(caller: Caller): Promise<void> {
  const { random, book, journal } = caller
  const kind = random.below(2) === 0 ? 'carts' : 'carts with keys'
  const names = random.sample(CARTS[kind], 3)
  const changes = names.map((name) => ({ name, delta: 1 }))
  const outcome = await (kind === 'carts'
    ? caller.call<{ changes: { value: number }[] }>(INCREMENT_MANY, { changes })
    : caller.insist<{ changes: { value: number }[] }>(INCREMENT_MANY, { changes, key: randomUUID() }))
  if (outcome?.kind === 'unknown') for (const name of names) book.unknown(kind, name, 1)
  if (outcome?.kind !== 'answered') return noteUnexpected(caller, kind, outcome)
  const values = outcome.data.changes.map(({ value }) => value)
  for (const [index, name] of names.entries())
    book.answered(kind, name, (values[index] ?? 0) - 1, values[index] ?? 0)
  if (new Set(values).size !== 1) journal.wrong.push(`${kind}: ${values} at once`)
}
