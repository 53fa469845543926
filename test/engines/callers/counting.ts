import { type Caller, noteUnexpected } from '../caller.ts'
import { NAMESPACE } from './namespace.ts'

interface Change {
  value: number
  previousValue: number
}

const INCREMENT_BY = `mutation($name: String!, $delta: SafeInt!) {
  change: incrementBy(name: $name, delta: $delta, namespace: "${NAMESPACE}") { value previousValue }
}`

const COUNTERS = 200

/** The one counter that most callers change. */
export async function countHot(caller: Caller): Promise<void> {
  await count(caller, 'hot', 1)
}

/** One of many counters, by a few. */
export async function countMany(caller: Caller): Promise<void> {
  await count(caller, `many ${caller.random.below(COUNTERS)}`, 1 + caller.random.below(3))
}

async function count(caller: Caller, name: string, delta: number): Promise<void> {
  const outcome = await caller.call<{ change: Change }>(INCREMENT_BY, { name, delta })
  if (outcome.kind === 'unknown') caller.book.unknown('counters', name, delta)
  if (outcome.kind !== 'answered') return noteUnexpected(caller, 'incrementBy', outcome)
  const { value, previousValue } = outcome.data.change
  caller.book.answered('counters', name, previousValue, value)
  if (value - previousValue !== delta)
    caller.journal.wrong.push(`${name}: ${delta} made ${value} of ${previousValue}`)
}
