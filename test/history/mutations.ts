import type { Random } from '../support/mulberry32.ts'
import type { Answer, ApiOperation, CallRecord } from './history.ts'

/** A call that was answered by one object. */
type Answered = CallRecord & { answeredAt: number; outcome: { kind: 'answered'; answer: Answer } }

/** Calls with something else of them, or without them (null). */
type Changes = readonly (readonly [CallRecord, Partial<CallRecord> | null])[]

/** Makes a history wrong in a way that its callers would notice. Undefined: it has no place for that. */
export type Mutation = (history: readonly CallRecord[], random: Random) => CallRecord[] | undefined

/** A mutation that changes any of some calls. `changes` may find no change of that one. */
function anyOf<Call extends CallRecord>(
  callsIn: (history: readonly CallRecord[]) => readonly Call[],
  changesOf: (call: Call, history: readonly CallRecord[], random: Random) => Changes | undefined,
): Mutation {
  return (history, random) => {
    const call = pick(callsIn(history), random)
    const changes = new Map(call && changesOf(call, history, random))
    if (changes.size === 0) return undefined
    return history.flatMap((record) => {
      const change = changes.get(record)
      return change === null ? [] : { ...record, ...change }
    })
  }
}

/** A mutation of two calls, of which the first was answered before the second one was sent. */
function pairOf(
  callsIn: (history: readonly CallRecord[]) => readonly Answered[],
  changesOf: (earlier: Answered, later: Answered) => Changes,
): Mutation {
  return anyOf(callsIn, (later, history, random) => {
    const earlier = callsIn(history).filter(({ answeredAt }) => answeredAt < later.sentAt)
    const first = pick(earlier, random)
    return first && changesOf(first, later)
  })
}

/** The answered calls of a kind, on one name, in the order of their numbers. `isMeant`: only some of them. */
function answered(
  kind: ApiOperation['kind'],
  name?: string,
  isMeant: (answer: Answer, operation: ApiOperation) => unknown = () => true,
) {
  return (history: readonly CallRecord[]) =>
    history
      .filter((record): record is Answered => {
        const { operation, outcome } = record
        if (operation.kind !== kind || outcome.kind !== 'answered') return false
        const { answer } = outcome
        if (answer === null || !('value' in answer) || !isMeant(answer, operation)) return false
        return name === undefined || ('name' in operation && operation.name === name)
      })
      .toSorted((a, b) => (a.outcome.answer.value ?? 0) - (b.outcome.answer.value ?? 0))
}

function pick<Item>(items: readonly Item[], random: Random): Item | undefined {
  return items[random.below(items.length)]
}

function withAnswer(record: Answered, change: Answer): Changes[number] {
  return [record, { outcome: { kind: 'answered', answer: { ...record.outcome.answer, ...change } } }]
}

const numbersOf = ({ outcome }: Answered): Answer => {
  const { value = 0 } = outcome.answer
  return { value, previousValue: value - 1 }
}

const dropped = (record: CallRecord): Changes => [[record, null]]

const hot = answered('increment', 'hot')
const keyed = answered('increment', 'keyed')

export const MUTATIONS: Record<string, Mutation> = {
  'two numbers are swapped': pairOf(hot, (earlier, later) => [
    withAnswer(earlier, numbersOf(later)),
    withAnswer(later, numbersOf(earlier)),
  ]),

  'a call is answered before a call with a lower number is sent': pairOf(hot, (earlier, later) => [
    [later, { sentAt: earlier.sentAt - 2, answeredAt: earlier.sentAt - 1 }],
  ]),

  'a committed call is dropped': anyOf(hot, dropped),

  'a read is from the past': anyOf(
    (history) =>
      history.filter(({ operation }) => operation.kind === 'counters' && operation.names[0] === 'hot'),
    (read, history) => {
      const before = hot(history).filter(({ answeredAt }) => answeredAt < read.sentAt)
      if (read.outcome.kind !== 'answered' || before.length === 0) return undefined
      const [first, ...others] = [read.outcome.answer ?? []].flat()
      const value = Math.max(...before.map(({ outcome }) => outcome.answer.value ?? 0)) - 1
      return [[read, { outcome: { kind: 'answered', answer: [{ ...first, value }, ...others] } }]]
    },
  ),

  'a number is given twice': pairOf(
    answered('nextInSequence', 'tickets', (_, operation) => 'group' in operation && operation.group === 'B'),
    (earlier, later) => [withAnswer(later, earlier.outcome.answer)],
  ),

  'a replay counts': anyOf(
    answered('increment', 'keyed', ({ replayed }) => replayed),
    (replay, history) => {
      const value = (keyed(history).at(-1)?.outcome.answer.value ?? 0) + 1
      return [withAnswer(replay, { value, previousValue: value - 1, replayed: false })]
    },
  ),

  'a bound is exceeded': anyOf(
    (history) =>
      history.filter(({ operation }) => operation.kind === 'increment' && operation.name === 'bounded'),
    (refused) => {
      if (refused.outcome.kind !== 'refused' || refused.outcome.code !== 'LIMIT_REACHED') return undefined
      const { value: previousValue = 0 } = refused.outcome
      const numbers = { value: previousValue + 1, previousValue, appliedDelta: 1 }
      const answer = { ...numbers, alreadyCounted: false, replayed: false }
      return [[refused, { outcome: { kind: 'answered', answer } }]]
    },
  ),

  'a subject counts twice': anyOf(
    answered('increment', 'votes', ({ alreadyCounted }) => alreadyCounted),
    (repeat) => {
      const previousValue = repeat.outcome.answer.value ?? 0
      const numbers = { value: previousValue + 1, previousValue, appliedDelta: 1 }
      return [withAnswer(repeat, { ...numbers, alreadyCounted: false })]
    },
  ),

  'a refused call counts': anyOf(answered('incrementBy', 'by'), (record) => [
    [record, { outcome: { kind: 'refused', code: 'UNAVAILABLE' } }],
  ]),

  'a cart is applied in half': anyOf(
    (history) => history.filter(({ operation }) => operation.kind === 'incrementMany'),
    (cart) => {
      const { operation, outcome } = cart
      if (operation.kind !== 'incrementMany' || outcome.kind !== 'answered') return undefined
      const changes = operation.changes.slice(1)
      const answer = [outcome.answer ?? []].flat().slice(1)
      if (changes.length === 0) return undefined
      return [[cart, { operation: { ...operation, changes }, outcome: { kind: 'answered', answer } }]]
    },
  ),

  'a deleted counter is still counted on': anyOf(
    answered('deleteCounter', 'short', ({ previousValue = 0 }) => previousValue > 0),
    dropped,
  ),

  'a confirmed invoice is reserved again': anyOf(answered('confirmReservation'), (first, history, random) => {
    const all = answered('reserveInSequence', 'invoices')(history)
    const later = pick(
      all.filter(({ sentAt }) => first.answeredAt < sentAt),
      random,
    )
    return later && [withAnswer(later, { value: first.outcome.answer.value })]
  }),

  'an answer of a bounded counter is too high': anyOf(answered('reset', 'bounded'), (record) => [
    withAnswer(record, { previousValue: 1000 }),
  ]),
}
