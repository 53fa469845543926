/** What counters do, said once more and in the simplest way, to compare with. Values are within the safe range. */
export interface ModelState {
  rows: Record<string, ModelRow>
  keys: Record<string, { request: string; answers: ModelAnswer[] }>
}

export interface ModelRow {
  value: number
  min: number | null
  max: number | null
  saturates: boolean
  slots: number
  /** What was added since it was made, all within one period. */
  added: number
}

export type ModelOperation = { key?: string | undefined } & (
  | { kind: 'add'; name: string; delta: number }
  | { kind: 'many'; changes: { name: string; delta: number }[] }
  | { kind: 'reset'; name: string; to: number; expectedValue?: number | undefined }
  | { kind: 'raise'; name: string; to: number; change?: ModelChange | undefined }
  | { kind: 'define'; name: string; change: ModelChange }
  | { kind: 'delete'; name: string }
)

/** What a definition changes: what is left out stays, and null is the default. */
export interface ModelChange {
  minValue?: number | null | undefined
  maxValue?: number | null | undefined
  overflow?: 'REJECT' | 'SATURATE' | null | undefined
  slots?: number | null | undefined
}

export interface ModelAnswer {
  value: number
  previousValue: number
  appliedDelta: number | null
  /** What was added in the current period; undefined if it isn't returned. */
  added?: number | undefined
  /** Of a raised counter: it was never written or defined before. */
  isNew?: true | undefined
}

/** What a caller receives. */
export type ModelOutcome =
  | { answers: ModelAnswer[]; isReplayed: boolean }
  | { code: string; value?: number | undefined; limit?: number | undefined; index?: number | undefined }

export const emptyState: ModelState = { rows: {}, keys: {} }

const END = BigInt(Number.MAX_SAFE_INTEGER)

/** The state after an operation, and what its caller receives. */
export function step(state: ModelState, operation: ModelOperation): [ModelState, ModelOutcome] {
  const { key, ...rest } = operation
  const request = JSON.stringify(rest)
  const earlier = key === undefined ? undefined : state.keys[key]
  if (earlier && earlier.request !== request) return [state, { code: 'IDEMPOTENCY_KEY_REUSED' }]
  if (earlier) return [state, { answers: earlier.answers, isReplayed: true }]
  const done = run(state.rows, operation)
  if (!('code' in done) && !wantsPeriodValues(operation))
    for (const answer of done.answers) answer.added = undefined
  if ('code' in done) return [state, done]
  const { rows, answers } = done
  const keys = key === undefined ? state.keys : { ...state.keys, [key]: { request, answers } }
  return [
    { rows, keys },
    { answers, isReplayed: false },
  ]
}

/** Whether the caller of an operation receives what was added in the current period. */
export function wantsPeriodValues(operation: ModelOperation): boolean {
  if (operation.kind === 'many' || operation.key !== undefined) return true
  return (operation.kind === 'add' || operation.kind === 'reset') && operation.name !== 'c'
}

export function rowOf(rows: ModelState['rows'], name: string): ModelRow {
  return rows[name] ?? { value: 0, min: null, max: null, saturates: false, slots: 1, added: 0 }
}

type Done = { rows: ModelState['rows']; answers: ModelAnswer[] } | Extract<ModelOutcome, { code: string }>

/** The counters after an operation, whatever its key, and what its caller receives. */
export function run(rows: ModelState['rows'], operation: ModelOperation): Done {
  switch (operation.kind) {
    case 'add':
      return addAll(rows, [operation], false)
    case 'many':
      return addAll(rows, operation.changes, true)
    case 'reset':
      return reset(rows, operation.name, operation.to, operation.expectedValue)
    case 'raise':
      return raise(rows, operation.name, operation.to, operation.change)
    case 'define':
      return define(rows, operation.name, operation.change)
    case 'delete': {
      const { [operation.name]: gone, ...others } = rows
      return { rows: others, answers: [{ value: 0, previousValue: gone?.value ?? 0, appliedDelta: null }] }
    }
  }
}

function addAll(
  before: ModelState['rows'],
  changes: { name: string; delta: number }[],
  isMany: boolean,
): Done {
  let rows = before
  const answers: ModelAnswer[] = []
  for (const [index, { name, delta }] of changes.entries()) {
    const row = rowOf(rows, name)
    const sum = BigInt(row.value) + BigInt(delta)
    const limit = beyond(row, sum)
    const details = { value: rowOf(before, name).value, ...(isMany && { index }) }
    if (limit !== null && !row.saturates) return { code: 'LIMIT_REACHED', limit, ...details }
    if (limit === null && (sum > END || sum < -END)) return { code: 'OUT_OF_RANGE', ...details }
    const value = limit ?? Number(sum)
    const appliedDelta = value - row.value
    const added = row.added + appliedDelta
    if (!Number.isSafeInteger(added)) return { code: 'OUT_OF_RANGE', ...details }
    answers.push({ value, previousValue: row.value, appliedDelta, added })
    rows = { ...rows, [name]: { ...row, value, added } }
  }
  return { rows, answers }
}

function reset(
  rows: ModelState['rows'],
  name: string,
  to: number,
  expectedValue = rowOf(rows, name).value,
): Done {
  const row = rowOf(rows, name)
  if (row.value !== expectedValue) return { code: 'CONFLICT', value: row.value }
  const limit = beyond(row, BigInt(to))
  if (limit !== null) return { code: 'LIMIT_REACHED', limit, value: row.value }
  const answers = [{ value: to, previousValue: row.value, appliedDelta: null, added: row.added }]
  return { rows: { ...rows, [name]: { ...row, value: to } }, answers }
}

/** A counter that is not there becomes what is given, whatever that is. */
function raise(rows: ModelState['rows'], name: string, to: number, change: ModelChange = {}): Done {
  const row = rows[name]
  if (row && to > row.value) return reset(rows, name, to)
  if (row) return { rows, answers: [{ value: row.value, previousValue: row.value, appliedDelta: null }] }
  const done = define({ ...rows, [name]: { ...rowOf(rows, name), value: to } }, name, change)
  if ('code' in done) return done
  return { ...done, answers: [{ value: to, previousValue: 0, appliedDelta: null, isNew: true }] }
}

function define(rows: ModelState['rows'], name: string, change: ModelChange): Done {
  const row = rowOf(rows, name)
  const min = change.minValue === undefined ? row.min : change.minValue
  const max = change.maxValue === undefined ? row.max : change.maxValue
  const saturates = change.overflow === undefined ? row.saturates : change.overflow === 'SATURATE'
  if (min !== null && max !== null && min > max) return { code: 'BAD_USER_INPUT' }
  const slots = change.slots === undefined ? row.slots : (change.slots ?? 1)
  if (slots > 1 && (min !== null || max !== null)) return { code: 'BAD_USER_INPUT' }
  const defined = { ...row, min, max, saturates, slots }
  const limit = beyond(defined, BigInt(row.value))
  if (limit !== null) return { code: 'LIMIT_REACHED', limit, value: row.value }
  const answers = [{ value: row.value, previousValue: row.value, appliedDelta: null }]
  return { rows: { ...rows, [name]: defined }, answers }
}

function beyond({ min, max }: ModelRow, value: bigint): number | null {
  if (max !== null && value > BigInt(max)) return max
  return min !== null && value < BigInt(min) ? min : null
}
