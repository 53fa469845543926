import type { Random } from '../support/mulberry32.ts'
import type { Answer, ApiOperation, CallRecord } from './history.ts'

type Kind = ApiOperation['kind']

/** A call that was answered by one object. */
type Answered = CallRecord & { answeredAt: number; outcome: { kind: 'answered'; answer: Answer } }

/** Makes a history wrong in a way that its callers would notice. Undefined: it has no place for that. */
export type Mutation = (history: readonly CallRecord[], random: Random) => CallRecord[] | undefined

/** The answered calls of a kind, on one counter, in the order of its numbers. */
function answered(history: readonly CallRecord[], kind: Kind, name: string): Answered[] {
  return history
    .filter((record): record is Answered => {
      const { operation, outcome } = record
      if (operation.kind !== kind || outcome.kind !== 'answered' || Array.isArray(outcome.answer))
        return false
      return outcome.answer !== null && 'name' in operation && operation.name === name
    })
    .toSorted((a, b) => (a.outcome.answer.value ?? 0) - (b.outcome.answer.value ?? 0))
}

/** The history with other answers of some calls, or without them (null). */
function replaced(
  history: readonly CallRecord[],
  ...changes: (readonly [CallRecord, Partial<CallRecord> | null])[]
): CallRecord[] {
  return history.flatMap((record) => {
    const change = changes.find(([changed]) => changed === record)?.[1]
    return change === null ? [] : { ...record, ...change }
  })
}

function withAnswer(record: Answered, change: Answer): readonly [CallRecord, Partial<CallRecord>] {
  return [record, { outcome: { kind: 'answered', answer: { ...record.outcome.answer, ...change } } }]
}

function pick<Item>(items: readonly Item[], random: Random): Item | undefined {
  return items[random.below(items.length)]
}

/** Two calls of which the first was answered before the second one was sent. */
function pairIn(records: readonly Answered[], random: Random): [Answered, Answered] | undefined {
  const later = pick(records, random)
  const earlier =
    later &&
    pick(
      records.filter(({ answeredAt }) => answeredAt < later.sentAt),
      random,
    )
  return earlier && [earlier, later]
}

const numbersOf = ({ outcome }: Answered): Answer => {
  const { value = 0 } = outcome.answer
  return { value, previousValue: value - 1 }
}

export const MUTATIONS: Record<string, Mutation> = {
  'two numbers are swapped'(history, random) {
    const [earlier, later] = pairIn(answered(history, 'increment', 'hot'), random) ?? []
    return (
      earlier &&
      later &&
      replaced(history, withAnswer(earlier, numbersOf(later)), withAnswer(later, numbersOf(earlier)))
    )
  },

  'a call is answered before a call with a lower number is sent'(history, random) {
    const [earlier, later] = pairIn(answered(history, 'increment', 'hot'), random) ?? []
    return (
      earlier &&
      later &&
      replaced(history, [later, { sentAt: earlier.sentAt - 2, answeredAt: earlier.sentAt - 1 }])
    )
  },

  'a committed call is dropped'(history, random) {
    const record = pick(answered(history, 'increment', 'hot'), random)
    return record && replaced(history, [record, null])
  },

  'a read is from the past'(history, random) {
    const changes = answered(history, 'increment', 'hot')
    const read = pick(
      history.filter(
        ({ operation, sentAt }) =>
          operation.kind === 'counters' &&
          operation.names[0] === 'hot' &&
          changes.some(({ answeredAt }) => answeredAt < sentAt),
      ),
      random,
    )
    if (read?.outcome.kind !== 'answered') return undefined
    const [hot, ...others] = [read.outcome.answer].flat()
    const before = changes.filter(({ answeredAt }) => answeredAt < read.sentAt)
    const value = Math.max(...before.map(({ outcome }) => outcome.answer.value ?? 0)) - 1
    return replaced(history, [
      read,
      { outcome: { kind: 'answered', answer: [{ ...hot, value }, ...others] as Answer[] } },
    ])
  },

  'a number is given twice'(history, random) {
    const [earlier, later] =
      pairIn(
        answered(history, 'nextInSequence', 'tickets').filter(
          ({ operation }) => operation.kind === 'nextInSequence' && operation.group === 'B',
        ),
        random,
      ) ?? []
    return earlier && later && replaced(history, withAnswer(later, { ...earlier.outcome.answer }))
  },

  'a replay counts'(history, random) {
    const all = answered(history, 'increment', 'keyed')
    const replay = pick(
      all.filter(({ outcome }) => outcome.answer.replayed),
      random,
    )
    const value = (all.at(-1)?.outcome.answer.value ?? 0) + 1
    return (
      replay && replaced(history, withAnswer(replay, { value, previousValue: value - 1, replayed: false }))
    )
  },

  'a bound is exceeded'(history, random) {
    const refused = pick(
      history.filter(
        ({ operation, outcome }) =>
          operation.kind === 'increment' &&
          operation.name === 'bounded' &&
          outcome.kind === 'refused' &&
          outcome.code === 'LIMIT_REACHED',
      ),
      random,
    )
    if (refused?.outcome.kind !== 'refused') return undefined
    const { value: previousValue = 0 } = refused.outcome
    const answer = {
      value: previousValue + 1,
      previousValue,
      appliedDelta: 1,
      alreadyCounted: false,
      replayed: false,
    }
    return replaced(history, [refused, { outcome: { kind: 'answered', answer } }])
  },

  'a subject counts twice'(history, random) {
    const all = answered(history, 'increment', 'votes')
    const repeat = pick(
      all.filter(({ outcome }) => outcome.answer.alreadyCounted),
      random,
    )
    const value = (repeat?.outcome.answer.value ?? 0) + 1
    return (
      repeat &&
      replaced(
        history,
        withAnswer(repeat, { value, previousValue: value - 1, appliedDelta: 1, alreadyCounted: false }),
      )
    )
  },

  'a refused call counts'(history, random) {
    const record = pick(answered(history, 'incrementBy', 'by'), random)
    return record && replaced(history, [record, { outcome: { kind: 'refused', code: 'UNAVAILABLE' } }])
  },

  'a cart is applied in half'(history, random) {
    const carts = history.filter(
      ({ operation, outcome }) =>
        operation.kind === 'incrementMany' && operation.changes.length > 1 && outcome.kind === 'answered',
    )
    const cart = pick(carts, random)
    if (cart?.operation.kind !== 'incrementMany' || cart.outcome.kind !== 'answered') return undefined
    const operation = { ...cart.operation, changes: cart.operation.changes.slice(1) }
    const answer = [cart.outcome.answer].flat().slice(1) as Answer[]
    return replaced(history, [cart, { operation, outcome: { kind: 'answered', answer } }])
  },

  'a deleted counter is still counted on'(history, random) {
    const deletion = pick(
      answered(history, 'deleteCounter', 'short').filter(
        ({ outcome }) => (outcome.answer.previousValue ?? 0) > 0,
      ),
      random,
    )
    return deletion && replaced(history, [deletion, null])
  },

  'a confirmed invoice is reserved again'(history, random) {
    const confirmed = history.filter(
      (record): record is Answered =>
        record.operation.kind === 'confirmReservation' && record.outcome.kind === 'answered',
    )
    const first = pick(confirmed, random)
    const value = first?.outcome.answer.value
    const later =
      first &&
      pick(
        answered(history, 'reserveInSequence', 'invoices').filter(({ sentAt }) => first.answeredAt < sentAt),
        random,
      )
    return later && replaced(history, withAnswer(later, { value }))
  },

  'an answer of a bounded counter is too high'(history, random) {
    const record = pick(answered(history, 'reset', 'bounded'), random)
    return record && replaced(history, withAnswer(record, { previousValue: 1000 }))
  },
}
