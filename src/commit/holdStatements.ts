import { firstRow, rowsOf } from '../mysql/session.ts'
import { bytes, hex, integer, list, orNull } from '../mysql/sql.ts'
import type { HoldPart } from '../rules/counter.ts'
import type { CounterReading, CounterWork, CounterWrite, HeldReading } from './batch.ts'
import type { FlushText, Reader } from './statements.ts'

/** The database's clock, in milliseconds since 1970. */
export const NOW_MS = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) div 1000)"

/** The columns of what is held, in a counter's row. */
export const HELD_COLUMNS = ['held_up', 'held_down', 'held_at', 'first_expiry', `${NOW_MS} as now_ms`]

export type HeldRow = Record<'held_up' | 'held_down' | 'held_at' | 'now_ms', number> & {
  first_expiry: number | null
}

/** What is held, as a row shows it: what has expired since is still part of it. */
export function heldIn(row: HeldRow): HeldReading {
  return {
    up: Number(row.held_up),
    down: Number(row.held_down),
    storedAt: Number(row.held_at),
    at: Math.max(Number(row.held_at), Number(row.now_ms)),
    firstExpiry: row.first_expiry === null ? null : Number(row.first_expiry),
    isSettled: false,
  }
}

/** Whether a hold may have expired that is still part of what is held. */
export function mayHaveExpired({ firstExpiry, at }: HeldReading): boolean {
  return firstExpiry !== null && firstExpiry <= at
}

/**
 * Sums what has expired of locked counters, from the index alone, and finds what expires next. Locking reads: plain ones may
 * miss the writes of a transaction that has just released its locks.
 */
export function settleHolds(
  readings: readonly (readonly [CounterWork, CounterReading])[],
  text: FlushText,
): Reader<[CounterWork, CounterReading][]> {
  const sums = readings.flatMap(([work, reading]) => {
    const { held } = reading
    return held ? [{ work, reading, held, sumAt: text.add(sumExpired(work.row.id, held)) }] : []
  })
  return (answers) =>
    sums.map(({ work, reading, held, sumAt }) => {
      const row = firstRow<Record<'up' | 'down' | 'next', number | string | null>>(answers[sumAt])
      const [up, down] = [held.up - Number(row?.up ?? 0), held.down - Number(row?.down ?? 0)]
      const firstExpiry = row?.next == null ? null : Number(row.next)
      return [work, { ...reading, held: { ...held, up, down, firstExpiry, isSettled: true } }]
    })
}

function sumExpired(id: number, { storedAt, at }: HeldReading): string {
  const own = `counter_id = ${integer(id)}`
  return `select cast(coalesce(sum(greatest(amount, 0)), 0) as signed) as up,
       cast(coalesce(-sum(least(amount, 0)), 0) as signed) as down,
       (select min(open_until)
          from hold force index (hold_open)
         where ${own} and open_until > ${integer(at)}
          lock in share mode) as next
  from hold force index (hold_open)
 where ${own} and open_until > ${integer(storedAt)} and open_until <= ${integer(at)}
  lock in share mode`
}

const STATES: readonly HoldPart['state'][] = ['RESERVED', 'CONFIRMED', 'RELEASED']

/** The columns of a part. */
export const PART_COLUMNS = 'token, counter_id, amount, expires_at, latest, state, results'

export type PartRow = Record<'counter_id' | 'amount' | 'expires_at' | 'latest' | 'state', number> & {
  token: Buffer
  results: Buffer | null
}

export function partIn({ amount, expires_at, latest, state, results }: PartRow): HoldPart {
  return {
    amount: Number(amount),
    expiresAt: Number(expires_at),
    latest: Number(latest),
    state: STATES[state] ?? 'RELEASED',
    confirmed: results ? JSON.parse(results.toString()) : undefined,
  }
}

/** Reads the parts of holds on locked counters; undefined: no operation is about one that exists. */
export function lockParts(
  works: readonly CounterWork[],
  text: FlushText,
): Reader<(work: CounterWork) => Map<string, HoldPart> | undefined> | undefined {
  const tokens = new Set<string>()
  for (const work of works)
    for (const operation of work.tokens ? work.operations : [])
      if ('token' in operation && operation.kind !== 'hold') tokens.add(operation.token)
  if (tokens.size === 0) return undefined
  const lockedAt = text.add(`select ${PART_COLUMNS}
  from hold force index (primary)
 where token in (${list([...tokens], hex)})
 order by token, counter_id
   for update`)
  return (answers) => {
    const parts = new Map<number, Map<string, HoldPart>>()
    for (const row of rowsOf<PartRow>(answers[lockedAt])) {
      const own = parts.get(row.counter_id) ?? new Map<string, HoldPart>()
      parts.set(row.counter_id, own.set(row.token.toString('hex'), partIn(row)))
    }
    return ({ row }) => parts.get(row.id)
  }
}

/** The parts that operations have changed, by token. */
function* changedParts({ work, before, after }: CounterWrite): Generator<[string, HoldPart]> {
  for (const token of work.tokens ?? []) {
    const part = after.parts.get(token)
    if (part && part !== before.parts?.get(token)) yield [token, part]
  }
}

/** Whether operations have changed a hold. */
export function changesHolds(write: CounterWrite): boolean {
  return write.work.tokens !== undefined && !changedParts(write).next().done
}

/** The statements that write the parts that were changed, if any, after the rows of their counters. */
export function writeParts(writes: readonly CounterWrite[]): string[] {
  const rows: string[] = []
  const sums: string[] = []
  for (const write of writes) {
    const { id, definition } = write.work.row
    for (const [token, part] of changedParts(write)) rows.push(partValues(token, id, part))
    // A reset is the cure of sums that are lost or wrong.
    if (definition.hasHolds && write.work.operations.some(({ kind }) => kind === 'set'))
      sums.push(sumHolds(id))
  }
  return rows.length === 0 ? sums : [storeParts(rows), ...sums]
}

/** Stores parts, which are given by `partValues`. */
export function storeParts(rows: readonly string[]): string {
  return `insert into hold (${PART_VALUES.join(', ')})
values ${list(rows, (row) => `(${row})`)}
on duplicate key update
       open_until = values(open_until),
       expires_at = values(expires_at),
       state = values(state),
       results = values(results)`
}

/** All columns of a part. */
export const PART_VALUES = [
  'token',
  'counter_id',
  'amount',
  'open_until',
  'expires_at',
  'latest',
  'state',
  'results',
] as const

/** The values of all columns of a part. */
export function partValues(token: string, counterId: number, part: HoldPart): string {
  const { amount, expiresAt, latest, state, confirmed } = part
  const openUntil = orNull(state === 'RESERVED' ? expiresAt : null, integer)
  const results = orNull(confirmed ?? null, (first) => bytes(JSON.stringify(first)))
  return `${hex(token)}, ${integer(counterId)}, ${integer(amount)}, ${openUntil}, ${integer(expiresAt)}, ${integer(latest)}, ${STATES.indexOf(state)}, ${results}`
}

/** What the sums of a counter's row `v` should be. Closed parts, which may be far more, are not read if its id is a literal. */
function sumsOf(id: string) {
  const own = `from hold h where h.counter_id = ${id} and h.open_until > 0 and h.open_until > v.held_at`
  return {
    up: `coalesce((select sum(greatest(h.amount, 0)) ${own}), 0)`,
    down: `coalesce((select -sum(least(h.amount, 0)) ${own}), 0)`,
    firstExpiry: `(select min(h.open_until) ${own})`,
  }
}

/**
 * Sums what a counter holds anew, of which all sums are lost or out of date: what has expired since its holds were judged is
 * part of it, as in any row.
 */
export function sumHolds(id: number): string {
  const { up, down, firstExpiry } = sumsOf(integer(id))
  return `update counter_value v
   set held_up = ${up},
       held_down = ${down},
       first_expiry = ${firstExpiry}
 where counter_id = ${integer(id)} and slot = 0`
}

const SUMS = sumsOf('v.counter_id')

/** The condition of a counter's row `v` that has other sums than its holds, or in which they would never expire. */
export const HAS_WRONG_SUMS = `(v.held_up <> ${SUMS.up}
        or v.held_down <> ${SUMS.down}
        or coalesce(v.first_expiry, ${Number.MAX_SAFE_INTEGER}) > ${SUMS.firstExpiry})`

/**
 * Judges the holds of a counter by an instant, for a sweep of what expired before: after it, those don't count as held. The
 * first statement locks the counter.
 */
export function judgeHolds(id: number, at: number): string[] {
  const row = `counter_id = ${integer(id)} and slot = 0`
  return [
    `select counter_id from counter_value force index (primary) where ${row} for update`,
    `update counter_value
   set held_at = ${integer(at)},
       revision = revision + 1
 where ${row} and held_at < ${integer(at)}`,
    sumHolds(id),
  ]
}

/** Assignments of what is held to a counter's row, each followed by a comma. */
export function heldAssignments(write: CounterWrite): string {
  const { before, after } = write
  const [was, is] = [before.held, after.held]
  if (!was || !is || !(was.isSettled || changesHolds(write))) return ''
  let next = was.firstExpiry
  for (const [, { state, expiresAt }] of changedParts(write))
    if (state === 'RESERVED' && (next === null || expiresAt < next)) next = expiresAt
  const first = next === was.firstExpiry && !was.isSettled ? '' : `first_expiry = ${orNull(next, integer)}, `
  if (was.isSettled)
    return `held_up = ${integer(is.up)}, held_down = ${integer(is.down)}, held_at = ${integer(is.at)}, ${first}`
  // Relative: then counters that are changed alike have the same assignments.
  const up = is.up === was.up ? '' : `held_up = held_up + ${integer(is.up - was.up)}, `
  const down = is.down === was.down ? '' : `held_down = held_down + ${integer(is.down - was.down)}, `
  return up + down + first
}
