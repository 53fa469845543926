import { type ModelOperation, type ModelRow, rowOf, run } from '../support/model/model.ts'
import type {
  Answer,
  ApiOperation,
  CallOutcome,
  CallRecord,
  RefusalDetails,
  SequenceDefinitionChange,
} from './history.ts'

/**
 * What the API does, said once more and in the simplest way. Rows are counters and sequence groups. What depends on the
 * date isn't here.
 */
export interface State {
  counters: Readonly<Record<string, ModelRow>>
  groups: Readonly<Record<string, Group>>
  /** By row and subject, one after the other: what its first call returned. */
  subjects: Readonly<Record<string, Answer>>
  /** By row and ID, one after the other. */
  reservations: Readonly<Record<string, ModelReservation>>
  /** By ID. */
  holds: Readonly<Record<string, ModelHold>>
  /** By idempotency key. */
  claims: Readonly<Record<string, Claimed>>
}

interface Group {
  definition: Definition
  last: number | null
  /** Set by a restart. */
  next: number | null
  /** How often it was restarted. */
  generation: number
  /** Numbers of this generation that were released. */
  free: readonly number[]
  /** IDs of the reservations of this generation that are open, or of whose end nobody knows. */
  open: readonly string[]
}

interface Definition {
  startValue: number
  step: number
  minValue: number | null
  maxValue: number | null
  cycle: boolean
  format: string | null
  gapless: boolean
}

interface ModelReservation {
  value: number
  formatted: string | undefined
  state: 'RESERVED' | 'CONFIRMED' | 'RELEASED' | 'EXPIRED'
  generation: number
  /** It can't expire before that, by the clock of the callers. */
  expiresFrom: number
}

/** What is held of several rows, which expires at one instant of the database's clock. */
interface ModelHold {
  parts: readonly { row: string; amount: number }[]
  state: 'RESERVED' | 'CONFIRMED' | 'RELEASED' | 'EXPIRED'
  /** It expires between these instants by the clock of the callers, if both clocks run alike. */
  expiresFrom: number
  expiresBy: number
  /** By the database's clock. Undefined: nobody knows. */
  expiresAt: number | undefined
  /** After that, no call is about it. */
  lastUse: number
  /** What its confirmation counted, and returned. */
  confirmed?: { wanted: string; answers: readonly Answer[] }
}

interface Claimed {
  request: string
  answer: Expected
}

type Expected = Answer | readonly Answer[] | null

/** What the model would answer. */
type Outcome = { answer: Expected } | ({ code: string } & RefusalDetails)

/** A call, as far as it touches one row; a cart or an idempotency key may touch several. */
export interface Part {
  record: CallRecord
  operation: PartOperation
  /** Its rows, in the order of the operation. */
  rows: readonly string[]
  /** What its caller received. */
  outcome: CallOutcome
  /** When it was answered, or from when on it can have no effect. Infinity: never. */
  until: number
  /** The idempotency key, if another call has the same. */
  key: string | undefined
  /** The ID of the reservation that it makes, if it makes one. */
  reservation: string
  /** Whether that is confirmed or released later, so it never expires. */
  isClosed: boolean
  /** When the last call about the hold that it makes was answered. */
  lastUse: number
  /** When the hold that it makes or extends expires by the database's clock. Undefined: nobody knows. */
  expiresAt: number | undefined
  /** What its answer says of its row before it: the value of a counter, or the next number of a sequence group. */
  position?: number | undefined
}

/** Calls on several rows that promise each row by itself have a part for each. */
export type PartOperation =
  | Exclude<ApiOperation, { kind: 'counters' | 'resetAll' }>
  | { kind: 'counter' }
  | { kind: 'resetIfThere'; to: number }

export const EMPTY: State = {
  counters: {},
  groups: {},
  subjects: {},
  reservations: {},
  holds: {},
  claims: {},
}

const UNUSED: Group = {
  definition: {
    startValue: 1,
    step: 1,
    minValue: null,
    maxValue: null,
    cycle: false,
    format: null,
    gapless: false,
  },
  last: null,
  next: null,
  generation: 0,
  free: [],
  open: [],
}

const END = Number.MAX_SAFE_INTEGER
const DEFAULT_TTL_S = 300

/** The state in which only the row of a part has counted, up to a number. */
export function counted({ rows: [row = ''], operation }: Part, value: number): State {
  if (operation.kind !== 'nextInSequence' && operation.kind !== 'sequenceGroup')
    return { ...EMPTY, counters: { [row]: { ...rowOf({}, row), value } } }
  return value === 0 ? EMPTY : withGroup(EMPTY, row, { ...UNUSED, last: value })
}

/** The states after a part, if its caller can have received this; the same object if it has no effect. */
export function applyPart(state: State, part: Part, toleranceMs: number): State[] {
  const position = positionIn(state, part)
  // Most parts that are tried don't fit: this is known before it is known what they would do.
  if (part.position !== undefined && position !== undefined && part.position !== position) return []
  const after = (from: State) =>
    outcomesOf(from, part, toleranceMs)
      .filter(([, outcome]) => fits(part.outcome, outcome))
      .map(([next]) => next)
  const fitting: { expired: ReadonlySet<string>; states: State[] }[] = []
  for (const { lapsed, expired } of lapses(state, part, toleranceMs)) {
    // What has expired without need may as well expire later; unless nobody knows what was answered.
    const isNeedless = fitting.some((other) => [...other.expired].every((id) => expired.has(id)))
    if (isNeedless && part.outcome.kind !== 'unknown') continue
    const states = after(lapsed)
    if (states.length > 0) fitting.push({ expired, states })
  }
  return fitting.flatMap(({ states }) => states)
}

/** Whether a row that only rises has passed the position of a part, which then never fits. */
export function isPast(state: State, part: Part): boolean {
  const position = positionIn(state, part)
  return part.position !== undefined && position !== undefined && part.position < position
}

/** Undefined: it says nothing about answers. With several slots, they are not exact, and released numbers are reissued. */
function positionIn({ counters, groups }: State, { rows: [row = ''], operation }: Part): number | undefined {
  if (operation.kind === 'nextInSequence' || operation.kind === 'sequenceGroup') {
    const group = groups[row] ?? UNUSED
    return group.definition.gapless ? undefined : (following(group) ?? undefined)
  }
  const { value = 0, slots = 1 } = counters[row] ?? {}
  return slots === 1 ? value : undefined
}

/** The same text for equal states, whatever the order in which their parts were made. */
export function textOf(state: State): string {
  return JSON.stringify(
    Object.values(state).map((part) => Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1))),
  )
}

/** Whether a caller can have received this. Only what was recorded and is known here is compared. */
function fits(outcome: CallOutcome, expected: Outcome): boolean {
  if (outcome.kind === 'unknown') return true
  if (outcome.kind === 'refused')
    return 'code' in expected && agree(outcome, { kind: 'refused', ...expected })
  return 'answer' in expected && agree(outcome.answer, expected.answer)
}

function agree(received: unknown, expected: unknown): boolean {
  if (received === undefined || expected === undefined || received === expected) return true
  if (received === null || expected === null) return false
  if (typeof received !== 'object' || typeof expected !== 'object') return false
  if (Array.isArray(received) && Object.keys(received).length !== Object.keys(expected).length) return false
  // Both are objects or lists.
  const parts = expected as Record<string, unknown>
  return Object.entries(received).every(([part, value]) => agree(value, parts[part]))
}

/** What can happen at this instant. Only the clock of the database, which nobody knows, leaves several. */
function outcomesOf(state: State, part: Part, toleranceMs: number): [State, Outcome][] {
  const { key, operation } = part
  if (key === undefined) return perform(state, part, toleranceMs)
  const request = JSON.stringify(operation)
  const earlier = state.claims[key]
  if (earlier && earlier.request !== request) return [[state, { code: 'IDEMPOTENCY_KEY_REUSED' }]]
  if (earlier) return [[state, { answer: replayOf(earlier.answer) }]]
  return perform(state, part, toleranceMs).map(([after, outcome]) => {
    if ('code' in outcome) return [after, outcome]
    const claims = { ...after.claims, [key]: { request, answer: outcome.answer } }
    return [{ ...after, claims }, outcome]
  })
}

/** A repeat returns the first answer, except for what is read anew: the state of a reservation, or of a restarted group. */
function replayOf(answer: Expected): Expected {
  const replayOfOne = ({ state: _, nextValue: __, ...first }: Answer) => ({ ...first, replayed: true })
  if (answer === null) return null
  return isList(answer) ? answer.map(replayOfOne) : replayOfOne(answer)
}

function isList<Item>(value: Item | readonly Item[]): value is readonly Item[] {
  return Array.isArray(value)
}

function perform(state: State, part: Part, toleranceMs: number): [State, Outcome][] {
  const { operation, rows } = part
  const [row = ''] = rows
  switch (operation.kind) {
    case 'increment':
      if (operation.subject !== undefined) return [countOnce(state, row, operation.subject)]
      return [add(state, row, 1)]
    case 'incrementBy':
      return [add(state, row, operation.delta)]
    case 'incrementMany': {
      const changes = operation.changes.map(({ delta }, index) => ({ name: rows[index] ?? '', delta }))
      return [changeCounters(state, { kind: 'many', changes })]
    }
    case 'uncount':
      return [uncount(state, row, operation.subject)]
    case 'reset': {
      const { to = 0, expectedValue, forgetSubjects } = operation
      const change = { kind: 'reset' as const, name: row, to, expectedValue }
      const [after, outcome] = onlyOne(changeCounters(state, change))
      if (!forgetSubjects || 'code' in outcome) return [[after, outcome]]
      return [[{ ...after, subjects: withoutRow(after.subjects, row) }, outcome]]
    }
    case 'resetIfThere': {
      const change = { kind: 'reset' as const, name: row, to: operation.to }
      return [[state.counters[row] ? changeCounters(state, change)[0] : state, DONE]]
    }
    case 'defineCounter': {
      const [after, outcome] = changeCounters(state, {
        kind: 'define',
        name: row,
        change: operation.definition,
      })
      return [[after, 'code' in outcome ? outcome : { answer: counterIn(after, row) }]]
    }
    case 'deleteCounter': {
      const [after, outcome] = onlyOne(changeCounters(state, { kind: 'delete', name: row }))
      return [[{ ...after, subjects: withoutRow(after.subjects, row) }, outcome]]
    }
    case 'counter':
      return [[state, { answer: counterIn(state, row) }]]
    case 'nextInSequence':
      if (operation.subject !== undefined) return [nextOnce(state, row, operation.subject)]
      return [next(state, row, operation.count ?? 1)]
    case 'restartSequence':
      return [restart(state, row, operation.nextValue ?? null)]
    case 'reserveInSequence':
      return reserve(state, part, (operation.ttlSeconds ?? DEFAULT_TTL_S) * 1000 - toleranceMs)
    case 'confirmReservation':
      return [...close(state, part, operation.id, 'CONFIRMED')]
    case 'releaseReservation':
      return [...close(state, part, operation.id, 'RELEASED')]
    case 'hold':
      return [hold(state, part, operation)]
    case 'confirmHold':
      return [confirmHold(state, rows, operation)]
    case 'extendHold':
      return [extendHold(state, part, operation)]
    case 'releaseHold':
      return [releaseHold(state, operation)]
    case 'defineSequence': {
      const group = groupOf(state, row)
      const definition = changedDefinition(group.definition, operation.definition)
      return [[withGroup(state, row, { ...group, definition }), DONE]]
    }
    case 'deleteSequence': {
      const { [row]: _, ...groups } = state.groups
      const subjects = withoutRow(state.subjects, row)
      return [[{ ...state, groups, subjects, reservations: withoutRow(state.reservations, row) }, DONE]]
    }
    case 'sequenceGroup': {
      const group = groupOf(state, row)
      // What comes next in a gapless sequence may depend on the clock.
      const nextValue = group.definition.gapless ? undefined : following(group)
      return [[state, { answer: { lastValue: group.last, nextValue } }]]
    }
  }
}

/** An answer of which nothing is checked. */
const DONE: Outcome = { answer: {} }

// Counters.

function changeCounters(state: State, operation: ModelOperation): [State, Outcome] {
  const done = runWithin(state, operation)
  if ('code' in done) return [state, done]
  const answer = done.answers.map(({ value, previousValue, appliedDelta }, index) => {
    const name = operation.kind === 'many' ? (operation.changes[index]?.name ?? '') : operation.name
    // With several slots, numbers are not exact.
    const numbers = rowOf(done.rows, name).slots === 1 ? { value, previousValue } : {}
    return { ...numbers, appliedDelta, alreadyCounted: false, replayed: false }
  })
  return [{ ...state, counters: done.rows }, { answer }]
}

function onlyOne([state, outcome]: [State, Outcome]): [State, Outcome] {
  if ('code' in outcome) return [state, outcome]
  const [answer = null] = [outcome.answer].flat()
  return [state, { answer }]
}

function add(state: State, name: string, delta: number): [State, Outcome] {
  return onlyOne(changeCounters(state, { kind: 'add', name, delta }))
}

function countOnce(state: State, row: string, subject: string): [State, Outcome] {
  const first = state.subjects[row + subject]
  if (first) return [state, { answer: { ...first, appliedDelta: 0, alreadyCounted: true } }]
  return withSubject(add(state, row, 1), row + subject)
}

/** Remembers what the first call of a subject returned. Where a bound left it without effect, there will be another. */
function withSubject([state, outcome]: [State, Outcome], subject: string): [State, Outcome] {
  const [answer] = 'answer' in outcome ? [outcome.answer].flat() : []
  if (!answer || answer.appliedDelta === 0) return [state, outcome]
  return [{ ...state, subjects: { ...state.subjects, [subject]: answer } }, outcome]
}

function uncount(state: State, row: string, subject: string): [State, Outcome] {
  const { [row + subject]: first, ...subjects } = state.subjects
  if (!first) return [state, { answer: null }]
  const [after, outcome] = add(state, row, -1)
  // What can't be subtracted is 0, and the subject is forgotten nonetheless.
  return 'code' in outcome ? add({ ...state, subjects }, row, 0) : [{ ...after, subjects }, outcome]
}

function counterIn(state: State, row: string): Answer {
  const { value, min: minValue, max: maxValue, saturates } = rowOf(state.counters, row)
  const { up: held, down: heldDown } = heldOf(state, row)
  return { value, held, heldDown, minValue, maxValue, overflow: saturates ? 'SATURATE' : 'REJECT' }
}

// Holds.

/** What is held of a row. */
function heldOf({ holds }: State, row: string): { up: number; down: number } {
  let [up, down] = [0, 0]
  for (const { state, parts } of Object.values(holds))
    for (const part of state === 'RESERVED' ? parts : []) {
      if (part.row !== row) continue
      up += Math.max(0, part.amount)
      down += Math.max(0, -part.amount)
    }
  return { up, down }
}

/** Changes counters as if what is held were beyond their bounds. */
function runWithin(state: State, operation: ModelOperation): ReturnType<typeof run> {
  const names = operation.kind === 'many' ? operation.changes.map(({ name }) => name) : [operation.name]
  const held = new Map(names.map((name) => [name, heldOf(state, name)]))
  if ([...held.values()].every(({ up, down }) => up === 0 && down === 0))
    return run(state.counters, operation)
  if (operation.kind === 'define') {
    const done = run(state.counters, operation)
    return 'code' in done ? done : (crossing({ ...state, counters: done.rows }, operation.name, 0) ?? done)
  }
  const moved = (rows: State['counters'], sign: number) => {
    const after = { ...rows }
    for (const [name, { up, down }] of held) {
      const row = rows[name]
      if (!row) continue
      const { min, max } = row
      after[name] = {
        ...row,
        min: min === null ? null : min + sign * down,
        max: max === null ? null : max - sign * up,
      }
    }
    return after
  }
  const done = run(moved(state.counters, 1), operation)
  // Its limit is that of the moved bound.
  if ('code' in done) return { ...done, limit: undefined }
  return { ...done, rows: moved(done.rows, -1) }
}

/** Why a row and what is held of it leave no room for an addition; undefined: they do. */
function crossing(
  state: State,
  name: string,
  delta: number,
): { code: string; limit: number; value: number; held?: number | undefined } | undefined {
  const { value, min, max } = rowOf(state.counters, name)
  const { up, down } = heldOf(state, name)
  const refusal = (limit: number, held: number) => ({
    code: 'LIMIT_REACHED',
    limit,
    value,
    held: held > 0 ? held : undefined,
  })
  if (max !== null && delta >= 0 && value + up + delta > max) return refusal(max, up)
  return min !== null && delta <= 0 && value - down + delta < min ? refusal(min, down) : undefined
}

function withHold(state: State, id: string, hold: ModelHold): State {
  return { ...state, holds: { ...state.holds, [id]: hold } }
}

interface Lapsed {
  lapsed: State
  /** The holds that have expired. */
  expired: ReadonlySet<string>
}

/** The states in which holds have expired until a call: those that must have, and perhaps those that may have. */
function* lapses(state: State, { record }: Part, toleranceMs: number): Iterable<Lapsed> {
  const end = record.answeredAt ?? Infinity
  let ways: Lapsed[] = [{ lapsed: state, expired: new Set() }]
  while (ways.length > 0) {
    const next = new Map<string, Lapsed>()
    for (const way of ways) {
      const open = Object.entries(way.lapsed.holds).filter(([, hold]) => hold.state === 'RESERVED')
      // All expire by one clock.
      const first = Math.min(...open.map(([, { expiresAt = Infinity }]) => expiresAt))
      const earliest = Math.min(...open.map(([, { expiresBy }]) => expiresBy))
      if (earliest + toleranceMs >= record.sentAt) yield way
      for (const [id, hold] of open) {
        if (hold.expiresFrom - toleranceMs >= end || hold.expiresFrom > earliest) continue
        if (hold.expiresAt !== undefined && hold.expiresAt > first) continue
        const expired = new Set([...way.expired, id])
        const text = [...expired].toSorted().join(' ')
        if (!next.has(text)) next.set(text, { lapsed: expireHold(way.lapsed, id, hold, record), expired })
      }
    }
    ways = [...next.values()]
  }
}

function expireHold(state: State, id: string, hold: ModelHold, { sentAt }: CallRecord): State {
  const { [id]: _, ...others } = state.holds
  if (sentAt > hold.lastUse) return { ...state, holds: others }
  return withHold(state, id, { ...hold, state: 'EXPIRED' })
}

type HoldOperation<Kind> = Extract<PartOperation, { kind: Kind }>

function hold(
  state: State,
  { record, rows, reservation: id, until, lastUse, expiresAt }: Part,
  { changes, ttlSeconds = DEFAULT_TTL_S, namespace = 'default' }: HoldOperation<'hold'>,
): [State, Outcome] {
  const sums = sumsOf(changes, namespace)
  const parts = rows.map((row) => ({ row, amount: sums.get(row) ?? 0 }))
  for (const { row, amount } of parts) {
    const refusal = crossing(state, row, amount)
    if (refusal) return [state, refusal]
  }
  const counters = { ...state.counters }
  for (const { row } of parts) counters[row] = rowOf(counters, row)
  const [expiresFrom, expiresBy] = [record.sentAt + ttlSeconds * 1000, until + ttlSeconds * 1000]
  const made: ModelHold = { parts, state: 'RESERVED', expiresFrom, expiresBy, expiresAt, lastUse }
  return [withHold({ ...state, counters }, id, made), { answer: { id, state: 'RESERVED' } }]
}

/** By row. */
function sumsOf(changes: readonly { name: string; delta: number }[], namespace: string): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { name, delta } of changes) {
    const row = JSON.stringify([namespace, name])
    sums.set(row, (sums.get(row) ?? 0) + delta)
  }
  return sums
}

function confirmHold(
  state: State,
  rows: readonly string[],
  { id, changes, namespace = 'default' }: HoldOperation<'confirmHold'>,
): [State, Outcome] {
  const present = state.holds[id]
  if (!present) return [state, { code: 'NOT_FOUND' }]
  const sums = changes && sumsOf(changes, namespace)
  const amounts = rows.map((row) => present.parts.find((part) => part.row === row)?.amount ?? 0)
  const deltas = rows.map((row, index) => (sums ? (sums.get(row) ?? 0) : (amounts[index] ?? 0)))
  const wanted = JSON.stringify(deltas)
  if (present.confirmed?.wanted === wanted)
    return [state, { answer: present.confirmed.answers.map((first) => ({ ...first, replayed: true })) }]
  if (present.state === 'CONFIRMED' || present.state === 'RELEASED') return [state, closed(present)]
  const isOpen = present.state === 'RESERVED'
  let after = withHold(state, id, { ...present, state: 'CONFIRMED' })
  const answers: Answer[] = []
  for (const [index, row] of rows.entries()) {
    const [delta, amount] = [deltas[index] ?? 0, amounts[index] ?? 0]
    const isWithin = delta === 0 || (isOpen && Math.abs(delta) <= Math.abs(amount))
    const [next, outcome] = isWithin ? addFreely(after, row, delta) : add(after, row, delta)
    const [answer] = 'answer' in outcome ? [outcome.answer].flat() : []
    if ('code' in outcome && isOpen) return [state, outcome]
    if (!answer || (!isOpen && delta !== 0 && answer.appliedDelta === 0)) return [state, closed(present)]
    answers.push(answer)
    after = next
  }
  const confirmed: ModelHold = { ...present, state: 'CONFIRMED', confirmed: { wanted, answers } }
  return [withHold(after, id, confirmed), { answer: answers }]
}

/** Adds what was held, for which there is room. */
function addFreely(state: State, name: string, delta: number): [State, Outcome] {
  const row = rowOf(state.counters, name)
  const value = row.value + delta
  const answer = {
    value,
    previousValue: row.value,
    appliedDelta: delta,
    alreadyCounted: false,
    replayed: false,
  }
  return [
    { ...state, counters: { ...state.counters, [name]: { ...row, value, added: row.added + delta } } },
    { answer },
  ]
}

function extendHold(
  state: State,
  { record, until, expiresAt }: Part,
  { id, ttlSeconds = DEFAULT_TTL_S }: HoldOperation<'extendHold'>,
): [State, Outcome] {
  const present = state.holds[id]
  if (!present) return [state, { code: 'NOT_FOUND' }]
  if (present.state !== 'RESERVED') return [state, closed(present)]
  const [expiresFrom, expiresBy] = [record.sentAt + ttlSeconds * 1000, until + ttlSeconds * 1000]
  const answer: Answer = { id, state: 'RESERVED' }
  return [withHold(state, id, { ...present, expiresFrom, expiresBy, expiresAt }), { answer }]
}

function releaseHold(state: State, { id }: HoldOperation<'releaseHold'>): [State, Outcome] {
  const present = state.holds[id]
  if (!present) return [state, { code: 'NOT_FOUND' }]
  if (present.state === 'CONFIRMED') return [state, closed(present)]
  const answer: Answer = { id, state: 'RELEASED' }
  if (present.state === 'RELEASED') return [state, { answer }]
  return [withHold(state, id, { ...present, state: 'RELEASED' }), { answer }]
}

function closed({ state }: ModelHold): Outcome {
  return { code: 'RESERVATION_CLOSED', state }
}

// Sequences.

function groupOf({ groups }: State, row: string): Group {
  return groups[row] ?? UNUSED
}

function withGroup(state: State, row: string, group: Group): State {
  return { ...state, groups: { ...state.groups, [row]: group } }
}

function changedDefinition(present: Definition, change: SequenceDefinitionChange): Definition {
  const parts = Object.entries({ ...UNUSED.definition, ...present }).map(([part, value]) => {
    // The parts of a definition that are known here.
    const name = part as keyof Definition
    return [name, change[name] === undefined ? value : (change[name] ?? UNUSED.definition[name])]
  })
  return Object.fromEntries(parts)
}

/** The number after what a group holds; null: there is none. */
function following({ definition, last, next }: Pick<Group, 'definition' | 'last' | 'next'>): number | null {
  const { startValue, step, minValue, maxValue, cycle } = definition
  const [lowest, highest] = [minValue ?? -END, maxValue ?? END]
  const number = next ?? (last === null ? startValue : last + step)
  const within = step > 0 ? Math.max(number, lowest) : Math.min(number, highest)
  if (within >= lowest && within <= highest) return within
  return cycle ? ((step > 0 ? minValue : maxValue) ?? startValue) : null
}

function advance(group: Group, count: number): { group: Group; value: number; lastValue: number } | Outcome {
  const { definition, last } = group
  const { step, minValue, maxValue, cycle } = definition
  const limit = step > 0 ? maxValue : minValue
  const exhausted =
    limit === null
      ? { code: 'OUT_OF_RANGE' }
      : { code: 'SEQUENCE_EXHAUSTED', limit, lastValue: last ?? undefined }
  const value = following(group)
  if (value === null) return exhausted
  let lastValue = value
  if (!cycle) lastValue += (count - 1) * step
  else
    for (let more = 1; more < count; more++)
      lastValue = following({ definition, last: lastValue, next: null }) ?? value
  if (lastValue < (minValue ?? -END) || lastValue > (maxValue ?? END)) return exhausted
  return { group: { ...group, last: lastValue, next: null }, value, lastValue }
}

function next(state: State, row: string, count: number): [State, Outcome] {
  const advanced = advance(groupOf(state, row), count)
  if (!('group' in advanced)) return [state, advanced]
  const { group, value, lastValue } = advanced
  const formatted = formattedIn(group, row, value)
  const answer = { value, lastValue, formatted, alreadyIssued: false, replayed: false }
  return [withGroup(state, row, group), { answer }]
}

function nextOnce(state: State, row: string, subject: string): [State, Outcome] {
  const first = state.subjects[row + subject]
  if (first) return [state, { answer: { ...first, alreadyIssued: true } }]
  return withSubject(next(state, row, 1), row + subject)
}

function restart(state: State, row: string, nextValue: number | null): [State, Outcome] {
  const group = groupOf(state, row)
  const { startValue, minValue, maxValue } = group.definition
  const value = nextValue ?? startValue
  if (maxValue !== null && value > maxValue) return [state, { code: 'LIMIT_REACHED', limit: maxValue }]
  if (minValue !== null && value < minValue) return [state, { code: 'LIMIT_REACHED', limit: minValue }]
  const restarted = { ...group, next: value, generation: group.generation + 1, free: [], open: [] }
  const after = { ...withGroup(state, row, restarted), subjects: withoutRow(state.subjects, row) }
  return [after, { answer: { nextValue: value } }]
}

/** Reserves the first number that was released, or that of a reservation that may have expired, or the next one. */
function reserve(
  state: State,
  { record, rows, reservation: id, isClosed }: Part,
  ttlMs: number,
): [State, Outcome][] {
  const [row = ''] = rows
  const group = groupOf(state, row)
  const { definition, generation } = group
  if (!definition.gapless) return [[state, { code: 'BAD_USER_INPUT' }]]
  const isBefore = (one: number, other: number) => (definition.step > 0 ? one < other : one > other)
  const [first] = group.free
    .filter((value) => value >= (definition.minValue ?? -END) && value <= (definition.maxValue ?? END))
    .toSorted((a, b) => (isBefore(a, b) ? -1 : 1))
  const expirable = group.open.flatMap((token) => {
    const held = state.reservations[token]
    const isPossible = held && mayExpire(held, record) && (first === undefined || isBefore(held.value, first))
    return isPossible ? [{ token, value: held.value }] : []
  })

  const take = (from: State, value: number, { free, open, ...rest }: Group): [State, Outcome] => {
    const formatted = formattedIn(group, row, value)
    const held = {
      value,
      formatted,
      state: 'RESERVED' as const,
      generation,
      expiresFrom: isClosed ? Infinity : record.sentAt + ttlMs,
    }
    const reservations = { ...from.reservations, [row + id]: held }
    const left = {
      ...rest,
      free: free.filter((other) => other !== value),
      open: [...open, row + id].toSorted(),
    }
    return [
      { ...withGroup(from, row, left), reservations },
      { answer: { id, value, formatted, state: 'RESERVED' } },
    ]
  }

  const lapsed = expirable.map(({ token, value }) => {
    const open = group.open.filter((other) => other !== token)
    return take(expire(state, token), value, { ...group, open })
  })
  const advanced = first === undefined ? advance(group, 1) : { group, value: first }
  return [...lapsed, 'group' in advanced ? take(state, advanced.value, advanced.group) : [state, advanced]]
}

function mayExpire({ expiresFrom }: ModelReservation, { answeredAt }: CallRecord): boolean {
  return answeredAt === null || answeredAt > expiresFrom
}

/** Notes that a reservation isn't open any more. Its number may be taken later. */
function expire(state: State, token: string): State {
  const held = state.reservations[token]
  if (!held) return state
  return { ...state, reservations: { ...state.reservations, [token]: { ...held, state: 'EXPIRED' } } }
}

function* close(
  state: State,
  { record, rows: [row = ''] }: Part,
  id: string,
  wanted: 'CONFIRMED' | 'RELEASED',
): Iterable<[State, Outcome]> {
  const token = row + id
  const held = state.reservations[token]
  if (!held) return yield [state, { code: 'NOT_FOUND' }]
  const { value, formatted, state: present, generation } = held
  const answer = { id, value, formatted, state: wanted }
  if (present === wanted) return yield [state, { answer }]
  if (present !== 'RESERVED') return yield [state, { code: 'RESERVATION_CLOSED', state: present }]
  if (mayExpire(held, record)) yield [expire(state, token), { code: 'RESERVATION_CLOSED', state: 'EXPIRED' }]
  const group = groupOf(state, row)
  const open = group.open.filter((other) => other !== token)
  const isFree = wanted === 'RELEASED' && generation === group.generation
  const after = withGroup(state, row, { ...group, open, free: isFree ? [...group.free, value] : group.free })
  yield [
    { ...after, reservations: { ...after.reservations, [token]: { ...held, state: wanted } } },
    { answer },
  ]
}

/** Undefined: the format shows a date. */
function formattedIn({ definition: { format } }: Group, row: string, value: number): string | undefined {
  const [, , group = ''] = JSON.parse(row)
  const shown = format ?? (group === '' ? '{value}' : '{group}-{value}')
  if (/\{(yyyy|yy|MM|dd|HH|week)\}/.test(shown)) return undefined
  return shown.replace(/\{\{|\}\}|\{(\w+)(?::(\d+))?\}/g, (all, field?: string, digits?: string) => {
    if (field === undefined) return all.slice(1)
    if (field === 'group') return group
    return `${value < 0 ? '-' : ''}${String(Math.abs(value)).padStart(Number(digits ?? 0), '0')}`
  })
}

/** Without what belongs to a row. */
function withoutRow<Item>(items: Readonly<Record<string, Item>>, row: string): Record<string, Item> {
  return Object.fromEntries(Object.entries(items).filter(([name]) => !name.startsWith(row)))
}
