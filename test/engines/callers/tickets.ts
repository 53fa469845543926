import { type Caller, noteUnexpected } from '../caller.ts'
import { type Definitions, ticketsOf } from './definitions.ts'
import { NAMESPACE } from './namespace.ts'

const NEXT = `mutation($sequence: String!, $group: String!, $count: Int!) {
  numbers: nextInSequence(name: $sequence, group: $group, count: $count, namespace: "${NAMESPACE}") {
    value lastValue formatted
  }
}`
const GROUPS = 10

/** Numbers of a sequence in groups, whose format is changed again and again. */
export async function takeTickets(caller: Caller, { format }: Definitions): Promise<void> {
  const { random, book, journal } = caller
  const group = `board ${random.below(GROUPS)}`
  const count = 1 + random.below(4)
  const acknowledged = format.acknowledged
  const sequence = ticketsOf(acknowledged)
  const outcome = await caller.call<{ numbers: { value: number; lastValue: number; formatted: string } }>(
    NEXT,
    {
      sequence,
      group,
      count,
    },
  )
  const name = `${sequence}/${group}`
  if (outcome.kind === 'unknown') book.unknown('tickets', name, count)
  if (outcome.kind !== 'answered') return noteUnexpected(caller, 'nextInSequence', outcome)
  const { value, lastValue, formatted } = outcome.data.numbers
  book.answered('tickets', name, value - 1, lastValue)
  const [, version, shown, number] = /^v(\d+) (.*)-(\d+)$/.exec(formatted) ?? []
  const isRight = shown === group && Number(number) === value && lastValue - value === count - 1
  if (!isRight) journal.wrong.push(`${name}: ${formatted} for ${value} to ${lastValue}`)
  if (Number(version) < acknowledged || Number(version) > format.requested)
    journal.wrong.push(`${name}: ${formatted} after version ${acknowledged} was answered`)
}
