import type { ApiOperation, CallOutcome, CallRecord } from './history.ts'
import type { Part, PartOperation, State } from './model.ts'

/** What is known of a component. */
export type Judgement =
  | { kind: 'linearizable' }
  /** No order explains the answer of the call. */
  | { kind: 'fault'; message: string; call: CallRecord }
  | { kind: 'given up'; reason: string }

/** Codes that say something about the state. With any other code, a call was not applied, and says nothing. */
const TELLING = [
  'LIMIT_REACHED',
  'OUT_OF_RANGE',
  'CONFLICT',
  'SEQUENCE_EXHAUSTED',
  'RESERVATION_CLOSED',
  'NOT_FOUND',
  'IDEMPOTENCY_KEY_REUSED',
]

/** What several calls refer to. */
interface Names {
  /** Rows of counters by namespace. */
  counters: Map<string, Set<string>>
  /** Rows of sequence groups by sequence. */
  groups: Map<string, Set<string>>
  /** By the ID of a hold: its rows, when the last call about it was answered, and when it expires by the database's clock. */
  holds: Map<string, { rows: readonly string[]; lastUse: number; expiresAt: number }>
  /** By the ID of a reservation: its row. */
  reservationRows: Map<string, string>
  /** By idempotency key: the reservation that was made with it. */
  reservations: Map<string, string>
  /** IDs of reservations that were confirmed or released. */
  closed: Set<string>
  /** By idempotency key: how many calls have it, when the first of them was answered that was applied, and an answer. */
  keys: Map<string, { uses: number; appliedAt: number; outcome?: CallOutcome | undefined }>
}

/** Splits a history into what its calls promise together. */
export function partsOf(history: readonly CallRecord[]): Part[] {
  const names = namesIn(history)
  return history.flatMap((record, index) => {
    const { operation, outcome } = record
    if (outcome.kind === 'refused' && !TELLING.includes(outcome.code)) return []
    const key = keyOf(operation)
    const { uses = 0, appliedAt = Infinity, outcome: applied } = names.keys.get(key ?? '') ?? {}
    const until = record.answeredAt ?? appliedAt
    // Sent after another call with its key was applied, it has no effect.
    if (outcome.kind === 'unknown' && until <= record.sentAt) return []
    const reservation = reservationIn(outcome) ?? names.reservations.get(key ?? '') ?? `unknown ${index}`
    const common = {
      record,
      until,
      key: uses > 1 ? key : undefined,
      reservation,
      isClosed: names.closed.has(reservation),
      lastUse: names.holds.get(reservation)?.lastUse ?? -Infinity,
      expiresAt: operation.kind === 'hold' ? names.holds.get(reservation)?.expiresAt : expiryIn(outcome),
      outcome,
    }
    return split(record, names).map((part) => {
      const whole = { ...common, ...part }
      // An unknown call that was applied is the one that a repetition returns.
      const isApplied = outcome.kind === 'unknown' && applied !== undefined
      return {
        ...whole,
        position: positionOf(isApplied ? { ...whole, outcome: applied, key: undefined } : whole),
      }
    })
  })
}

/** As in a part. Undefined: its answer doesn't say, or repeats an earlier one. */
function positionOf({ operation, outcome, key }: Part): number | undefined {
  const [answer] = outcome.kind === 'answered' ? [outcome.answer].flat() : []
  if (!answer || (key !== undefined && answer.replayed !== false)) return undefined
  const { alreadyCounted = true, alreadyIssued = true } = answer
  switch (operation.kind) {
    case 'counter':
      return answer.value
    case 'sequenceGroup':
      return answer.nextValue ?? undefined
    case 'nextInSequence':
      return operation.subject !== undefined && alreadyIssued ? undefined : answer.value
    case 'increment':
      return operation.subject !== undefined && alreadyCounted ? undefined : answer.previousValue
    case 'confirmHold':
      return answer.replayed === false ? answer.previousValue : undefined
    default:
      return answer.previousValue
  }
}

/** Whether the rows of parts only rise, so that no part fits any more once they have passed its position. */
export function isRising(parts: readonly Part[]): boolean {
  return parts.every(({ operation }) => {
    switch (operation.kind) {
      case 'incrementBy':
        return operation.delta >= 0
      case 'incrementMany':
      case 'hold':
        return operation.changes.every(({ delta }) => delta >= 0)
      case 'defineSequence':
        return Object.keys(operation.definition).every((part) => part === 'format' || part === 'allowRepeats')
      default:
        return RISING.includes(operation.kind)
    }
  })
}

const RISING = [
  'increment',
  'counter',
  'defineCounter',
  'nextInSequence',
  'sequenceGroup',
  // The changes of a hold say whether its confirmation rises.
  'confirmHold',
  'extendHold',
  'releaseHold',
]

function namesIn(history: readonly CallRecord[]): Names {
  const names: Names = {
    counters: new Map(),
    groups: new Map(),
    holds: new Map(),
    reservationRows: new Map(),
    reservations: new Map(),
    closed: new Set(),
    keys: new Map(),
  }
  for (const { operation, outcome, answeredAt } of history) {
    const { namespace = 'default' } = operation
    for (const row of rowsOf(operation)) {
      const [, name, group] = JSON.parse(row)
      if (group === undefined) addTo(names.counters, namespace, row)
      else addTo(names.groups, JSON.stringify([namespace, name]), row)
    }
    if ('id' in operation && outcome.kind === 'answered') names.closed.add(operation.id)
    const key = keyOf(operation)
    const id = reservationIn(outcome)
    if (operation.kind === 'reserveInSequence' && id !== undefined) {
      names.reservationRows.set(id, rowsOf(operation)[0] ?? '')
      if (key !== undefined) names.reservations.set(key, id)
    }
    if (operation.kind === 'hold' && id !== undefined) {
      // A repeat may return the expiry of an extension.
      const expiresAt = Math.min(expiryIn(outcome) ?? Infinity, names.holds.get(id)?.expiresAt ?? Infinity)
      names.holds.set(id, { rows: rowsOf(operation), lastUse: -Infinity, expiresAt })
      if (key !== undefined) names.reservations.set(key, id)
    }
    if (key === undefined) continue
    const before = names.keys.get(key)
    const { uses, appliedAt } = before ?? { uses: 0, appliedAt: Infinity }
    const at = outcome.kind === 'answered' ? (answeredAt ?? Infinity) : Infinity
    const answered = outcome.kind === 'answered' ? outcome : before?.outcome
    names.keys.set(key, { uses: uses + 1, appliedAt: Math.min(appliedAt, at), outcome: answered })
  }
  for (const { operation, answeredAt } of history) {
    const hold = 'id' in operation ? names.holds.get(operation.id) : undefined
    if (hold) hold.lastUse = Math.max(hold.lastUse, answeredAt ?? Infinity)
  }
  return names
}

function split({ operation, outcome }: CallRecord, names: Names): Pick<Part, 'operation' | 'rows'>[] {
  const { namespace = 'default' } = operation
  const each = (rows: Iterable<string>, part: PartOperation) =>
    [...rows].map((row) => ({ operation: part, rows: [row] }))
  switch (operation.kind) {
    case 'counters':
      if (outcome.kind !== 'answered') return []
      return rowsOf(operation).map((row, index) => ({
        operation: { kind: 'counter' },
        rows: [row],
        outcome: { kind: 'answered', answer: [outcome.answer].flat()[index] ?? null } satisfies CallOutcome,
      }))
    case 'sequenceGroup':
      return outcome.kind === 'answered' ? [{ operation, rows: rowsOf(operation) }] : []
    case 'resetAll': {
      const { prefix = '', to = 0 } = operation
      const rows = [...(names.counters.get(namespace) ?? [])]
      const chosen = rows.filter((row) => JSON.parse(row)[1].startsWith(prefix))
      return each(chosen, { kind: 'resetIfThere', to })
    }
    case 'defineSequence':
    case 'deleteSequence':
      return each(names.groups.get(JSON.stringify([namespace, operation.name])) ?? [], operation)
    case 'confirmReservation':
    case 'releaseReservation':
      return each([names.reservationRows.get(operation.id) ?? operation.id], operation)
    case 'confirmHold':
    case 'extendHold':
    case 'releaseHold':
      return [{ operation, rows: names.holds.get(operation.id)?.rows ?? [operation.id] }]
    default:
      return [{ operation, rows: rowsOf(operation) }]
  }
}

/** The rows that an operation names. */
function rowsOf(operation: ApiOperation): string[] {
  const { namespace = 'default' } = operation
  const counter = (name: string) => JSON.stringify([namespace, name])
  switch (operation.kind) {
    case 'nextInSequence':
    case 'restartSequence':
    case 'reserveInSequence':
    case 'sequenceGroup':
      return [JSON.stringify([namespace, operation.name, operation.group ?? ''])]
    case 'counters':
      return operation.names.map(counter)
    case 'incrementMany':
      return operation.changes.map(({ name }) => counter(name))
    case 'hold':
      return [...new Set(operation.changes.map(({ name }) => counter(name)))].toSorted()
    case 'resetAll':
    case 'confirmHold':
    case 'extendHold':
    case 'releaseHold':
    case 'confirmReservation':
    case 'releaseReservation':
    case 'defineSequence':
    case 'deleteSequence':
      return []
    default:
      return [counter(operation.name)]
  }
}

function keyOf(operation: ApiOperation): string | undefined {
  const { namespace = 'default' } = operation
  const key = 'idempotencyKey' in operation ? operation.idempotencyKey : undefined
  return key === undefined ? undefined : JSON.stringify([namespace, key])
}

function expiryIn(outcome: CallOutcome): number | undefined {
  const [{ expiresAt } = {}] = outcome.kind === 'answered' ? [outcome.answer ?? {}].flat() : []
  return expiresAt === undefined ? undefined : Date.parse(expiresAt)
}

function reservationIn(outcome: CallOutcome): string | undefined {
  return outcome.kind === 'answered' ? [outcome.answer].flat()[0]?.id : undefined
}

function addTo<Name, Item>(sets: Map<Name, Set<Item>>, name: Name, item: Item): void {
  sets.set(name, (sets.get(name) ?? new Set()).add(item))
}

/** Groups parts that share a row or an idempotency key, directly or by others. */
export function componentsOf(parts: readonly Part[]): Part[][] {
  const parents = new Map<string, string>()
  const rootOf = (name: string): string => {
    let root = name
    for (let parent = parents.get(root); parent !== undefined; parent = parents.get(root)) root = parent
    // The next search is short.
    if (root !== name) parents.set(name, root)
    return root
  }
  for (const { rows, key } of parts) {
    const [first = '', ...others] = key === undefined ? rows : [...rows, `key ${key}`]
    for (const other of others) {
      const [root, otherRoot] = [rootOf(first), rootOf(other)]
      if (root !== otherRoot) parents.set(otherRoot, root)
    }
  }
  const components = new Map<string, Set<Part>>()
  for (const part of parts) addTo(components, rootOf(part.rows[0] ?? ''), part)
  return [...components.values()].map((component) => [...component])
}

/** What the search may forget as soon as a part is answered, as no later part needs it. */
export function forgettingOf(parts: readonly Part[]): Map<Part, (state: State) => State> {
  const last = new Map<string, { part: Part; memory: Memory }>()
  const isUnknown = ({ outcome }: Part) => Number(outcome.kind === 'unknown')
  // At the same time, unknown ones end last.
  for (const part of parts.toSorted((a, b) => isUnknown(a) - isUnknown(b))) {
    for (const memory of memoriesOf(part)) {
      const place = `${memory.table} ${memory.name}`
      if (part.until >= (last.get(place)?.part.until ?? 0)) last.set(place, { part, memory })
    }
  }
  const memories = new Map<Part, Set<Memory>>()
  for (const { part, memory } of last.values()) addTo(memories, part, memory)
  return new Map([...memories].map(([part, all]) => [part, (state) => [...all].reduce(forget, state)]))
}

/** What a part leaves in the state for later calls, besides its rows. */
interface Memory {
  table: 'claims' | 'subjects' | 'reservations' | 'holds'
  name: string
}

const HOLDS = ['confirmHold', 'extendHold', 'releaseHold']

function memoriesOf({ key, operation, rows: [row = ''], reservation }: Part): Memory[] {
  const memories: Memory[] = []
  if (key !== undefined) memories.push({ table: 'claims', name: key })
  if ('subject' in operation && operation.subject !== undefined)
    memories.push({ table: 'subjects', name: row + operation.subject })
  if (operation.kind === 'reserveInSequence')
    memories.push({ table: 'reservations', name: row + reservation })
  if (operation.kind === 'hold') memories.push({ table: 'holds', name: reservation })
  if (HOLDS.includes(operation.kind) && 'id' in operation)
    memories.push({ table: 'holds', name: operation.id })
  else if ('id' in operation) memories.push({ table: 'reservations', name: row + operation.id })
  return memories
}

function forget(state: State, { table, name }: Memory): State {
  const isOpen =
    table === 'reservations' && Object.values(state.groups).some(({ open }) => open.includes(name))
  if (isOpen || !(name in state[table])) return state
  // What it takes is still held.
  if (table === 'holds' && state.holds[name]?.state === 'RESERVED') return state
  const { [name]: _, ...left } = state[table]
  return { ...state, [table]: left }
}
