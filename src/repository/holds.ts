import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Applied, MissingRow, onCounter } from '../commit/call.ts'
import { NOW_MS, PART_COLUMNS, type PartRow, partIn } from '../commit/holdStatements.ts'
import type { Connection } from '../mysql/connection.ts'
import { joined } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import { bytes, groupBy, hex, integer, list } from '../mysql/sql.ts'
import {
  type CounterKey,
  type CounterResult,
  type HoldOperation,
  type HoldPart,
  keyText,
  type Page,
} from '../rules/counter.ts'
import { NthError, unavailable } from '../rules/errors.ts'
import { noSuchHold } from '../rules/holds.ts'
import { inputError } from '../rules/names.ts'
import type { CounterRow } from '../rules/rows.ts'
import type { ReservationState } from '../rules/sequence.ts'
import type { Owner } from '../rules/turns.ts'
import { batchReads } from './batches.ts'
import { type CallOptions, type CounterDelta, changeOf, type OperationDependencies } from './counters.ts'

/** What a process remembers of its holds: about 200 bytes for each counter of a hold. */
const MAX_DELTAS_KEPT = 50_000

/** Additions to counters of a namespace, that are held together. */
export interface Hold {
  token: string
  /** EXPIRED as soon as it has expired for one of its counters. */
  state: ReservationState
  /** In milliseconds since 1970, by the database's clock. */
  expiresAt: number
  /** In the order of the names, by their UTF-8 bytes. */
  deltas: readonly HeldDelta[]
}

export interface HeldDelta {
  delta: number
  /** Undefined: the counter was deleted. */
  key: CounterKey | undefined
}

/** A place in the list of a counter's holds: those that expire first come first. */
export interface HoldPosition {
  expiresAt: number
  amount: number
  token: string
}

export function openHolds(dependencies: OperationDependencies<CounterKey, CounterRow>) {
  const { database, rows, groupCommit } = dependencies
  const reads = batchReads(tokenOf, joined(database, readHolds), () => undefined)

  /**
   * What this process has held, by token, as nothing but a deletion changes it: a confirmation mostly comes to the process
   * that made the hold, and without another round trip before its flush it takes 131 µs of processor time, of node and
   * database, instead of 171 (`npm run bench -- --holds`).
   */
  const madeHere = new LRUCache<string, readonly HeldDelta[]>({
    maxSize: MAX_DELTAS_KEPT,
    sizeCalculation: ({ length }) => length,
  })

  /** Counters that are being marked as held, by the texts of their keys. */
  const marking = new Map<string, Promise<unknown>>()

  /**
   * Marks a counter as held, so that earlier versions refuse it, and flushes read what is held: once for all who wait.
   *
   * @throws {NthError} BAD_USER_INPUT for one with slots; UNAVAILABLE, OUTCOME_UNKNOWN
   */
  async function mark(key: CounterKey, owner?: Owner): Promise<unknown> {
    const { slots, hasHolds } = (rows.cached(key) ?? (await rows.load(key)))?.definition ?? {}
    if (hasHolds) return undefined
    if (slots !== undefined && slots > 1) throw new NthError('BAD_USER_INPUT', SLOTS)
    const text = keyText(key)
    const operation = { kind: 'define', change: { hasHolds: true } } as const
    const marked =
      marking.get(text) ??
      groupCommit
        .change({ operations: [onCounter(rows, key, operation)], mode: 'one', owner })
        .catch((error) => {
          // Whether it was marked or not, nothing was held.
          const isUnknown = error instanceof NthError && error.code === 'OUTCOME_UNKNOWN'
          throw isUnknown
            ? unavailable('A counter could not be marked as held; nothing was held.', error)
            : error
        })
        .finally(() => marking.delete(text))
    marking.set(text, marked)
    return marked
  }

  /** @throws {NthError} NOT_FOUND */
  async function read(token: string): Promise<Hold> {
    const hold = await reads.read({ token })
    if (!hold) throw noSuchHold()
    return hold
  }

  /**
   * What a hold takes of each counter. A counter may have been deleted since.
   *
   * @throws {NthError} NOT_FOUND
   */
  async function deltasOf(token: string): Promise<readonly HeldDelta[]> {
    return madeHere.get(token) ?? (await read(token)).deltas
  }

  /** Applies an operation to each of some counters of a hold: to all or none. */
  async function change(
    keys: readonly CounterKey[],
    operationOn: (key: CounterKey) => HoldOperation,
    options: CallOptions,
  ): Promise<Applied> {
    const operations = keys.map((key) => onCounter(rows, key, operationOn(key)))
    const request = { operations, mode: 'all', missingRows: 'fail', deadline: database.deadline() } as const
    return groupCommit.change({ ...request, ...options }).catch((error) => {
      // A counter was deleted in the meantime.
      throw error instanceof MissingRow ? noSuchHold() : error
    })
  }

  return {
    /** Undefined: there is none, or all of its counters were deleted. */
    find: (token: string) => reads.read({ token }),
    /** The same for many, in their order. */
    readMany: (tokens: readonly string[]) => reads.readMany(tokens.map((token) => ({ token }))),

    /** The open holds of a counter, with their positions in the list. */
    list: (key: CounterKey, page: Page<HoldPosition>, owner = JOINED) =>
      database.withRetry(owner, (connection) => listHolds(connection, key, page)),

    /**
     * Holds additions to counters: all or none. A repeat with the same claim returns the first hold, in its current state.
     *
     * @param longestMs how far it can be extended
     * @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, both with `index`; BAD_USER_INPUT for a counter with slots;
     *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async hold(
      namespace: string,
      changes: readonly CounterDelta[],
      { ttlMs, longestMs }: { ttlMs: number; longestMs: number },
      options: CallOptions = {},
    ): Promise<Hold> {
      const sums = sumsOf(changes)
      const keys = [...sums.keys()].map((name) => ({ namespace, name }))
      const isMarked = (key: CounterKey) => rows.cached(key)?.definition.hasHolds
      if (!keys.every(isMarked)) await Promise.all(keys.map((key) => mark(key, options.owner)))
      // Of a store of random bytes: `randomBytes` calls the kernel each time.
      const token = randomUUID().replaceAll('-', '')
      const operations = [...sums].map(([name, delta]) =>
        onCounter(rows, { namespace, name }, { kind: 'hold', token, delta, ttlMs, longestMs }),
      )
      const deadline = database.deadline()
      const applied = await groupCommit
        .change({ operations, mode: 'all', deadline, ...options })
        .catch((error) => atFirstChange(error, changes, keys))
      const [result] = applied.results
      if (!result || !('kind' in result) || result.kind !== 'hold') throw new Error('No result of a hold')
      if (applied.isReplayed) {
        const present = await reads.read(result)
        if (present) return present
        throw new NthError('NOT_FOUND', 'The hold made with this idempotency key no longer exists.')
      }
      const deltas = byName(keys.map((key) => ({ key, delta: sums.get(key.name) ?? 0 })))
      madeHere.set(token, deltas)
      return { token, state: 'RESERVED', expiresAt: result.expiresAt, deltas }
    },

    /**
     * Counts what is held; or other amounts, where a counter that is left out counts nothing. All or none. A repeat returns the
     * first results.
     *
     * @throws {NthError} NOT_FOUND also if one of its counters was deleted; RESERVATION_CLOSED; LIMIT_REACHED, OUT_OF_RANGE;
     *   BAD_USER_INPUT for other counters, or another sign; UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async confirm(
      { token, deltas }: Pick<Hold, 'token' | 'deltas'>,
      changes?: readonly CounterDelta[] | null,
      options: CallOptions = {},
    ) {
      const sums = changes ? sumsOf(changes, 0) : undefined
      const held = new Map(deltas.map(({ key, delta }) => [key?.name, delta]))
      for (const [name, delta] of sums ?? []) {
        const index = changes?.findIndex((change) => change.name === name) ?? 0
        const amount = held.get(name)
        if (amount === undefined)
          throw inputError({
            message: 'is not the name of a counter of this hold',
            path: ['changes', index, 'name'],
          })
        if (delta !== 0 && Math.sign(delta) !== Math.sign(amount))
          throw inputError({
            message: `must have the sign of ${amount}, which is held`,
            path: ['changes', index, 'delta'],
          })
      }
      const keys = keysOf({ deltas })
      const deltaOf = ({ name }: CounterKey) => sums && (sums.get(name) ?? 0)
      const applied = await change(
        keys,
        (key) => ({ kind: 'confirm', token, delta: deltaOf(key) }),
        options,
      ).catch((error) => atFirstChange(error, changes ?? keys, keys))
      return keys.map((key, index) => changeOf(key, applied.results[index], applied))
    },

    /**
     * Moves the expiry, at most as far as it may be extended.
     *
     * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async extend(hold: Hold, ttlMs: number, options: CallOptions = {}): Promise<Hold> {
      const { token } = hold
      return holdAfter(hold, await change(keysOf(hold), () => ({ kind: 'extend', token, ttlMs }), options))
    },

    /**
     * Gives back what is held. A repeat returns the same result.
     *
     * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async release(hold: Hold, options: CallOptions = {}): Promise<Hold> {
      const { token } = hold
      const keys = hold.deltas.flatMap(({ key }) => key ?? [])
      return holdAfter(hold, await change(keys, () => ({ kind: 'release', token }), options))
    },

    read,
    deltasOf,
  }
}
const SLOTS =
  'A counter with several slots cannot be held, as no slot holds the total value. Nothing was changed.'

const tokenOf = ({ token }: { token: string }) => token

/** @throws {NthError} NOT_FOUND if one of them was deleted */
function keysOf({ deltas }: Pick<Hold, 'deltas'>): CounterKey[] {
  return deltas.map(({ key }) => {
    if (!key) throw noSuchHold()
    return key
  })
}

/** The sum for each counter. The order is that of the first change of each. */
function sumsOf(changes: readonly CounterDelta[], least = 1): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [index, { name, delta }] of changes.entries()) {
    const sum = (sums.get(name) ?? 0) + delta
    if (!Number.isSafeInteger(sum))
      throw inputError({ message: 'makes a sum that is not a SafeInt', path: ['changes', index, 'delta'] })
    sums.set(name, sum)
  }
  for (const [index, { name, delta }] of changes.entries())
    if (Math.abs(delta) < least || Math.abs(sums.get(name) ?? 0) < least)
      throw inputError({ message: 'must not be 0, alone or summed up', path: ['changes', index, 'delta'] })
  return sums
}

/** An error names the first change of the counter that has no room. */
function atFirstChange(
  error: unknown,
  changes: readonly { name: string }[],
  keys: readonly CounterKey[],
): never {
  if (!(error instanceof NthError) || error.details.index === undefined) throw error
  const { name } = keys[error.details.index] ?? {}
  const index = changes.findIndex((change) => change.name === name)
  throw new NthError(error.code, error.message, { ...error.details, index }, { cause: error })
}

/** A hold after an operation, which all of its parts have gone through. */
function holdAfter(hold: Hold, { results }: Applied): Hold {
  const part = partOf(results[0])
  return part ? { ...hold, state: part.state, expiresAt: part.expiresAt } : hold
}

function partOf(result: Applied['results'][number] | undefined): HoldPart | undefined {
  return result && !('kind' in result) ? (result satisfies CounterResult).part : undefined
}

type HoldRow = PartRow & Record<'namespace' | 'name', Buffer | null> & { is_expired: number | null }

async function readHolds(connection: Connection, holds: readonly { token: string }[]): Promise<Hold[]> {
  const rows = await connection.select<HoldRow>(
    `select ${PART_COLUMNS.replaceAll(/\w+/g, 'h.$&')},
            h.expires_at <= greatest(v.held_at, ${NOW_MS}) as is_expired, n.name as namespace, c.name
       from hold h force index (primary)
       left join counter_value v on v.counter_id = h.counter_id and v.slot = 0
       left join counter c on c.id = h.counter_id
       left join namespace n on n.id = c.namespace_id
      where h.token in (${list(holds, ({ token }) => hex(token))})
      order by h.token, h.counter_id`,
  )
  return [...groupBy(rows, ({ token }) => token.toString('hex'))].flatMap(([token, parts]) => {
    const deltas = parts.map(({ namespace, name, amount }) => ({
      key: namespace && name ? { namespace: namespace.toString(), name: name.toString() } : undefined,
      delta: Number(amount),
    }))
    // The part of a deleted counter stays as it was.
    const states = parts.flatMap((row) => (row.name ? stateOf(row) : []))
    const state = states.includes('EXPIRED') ? 'EXPIRED' : states[0]
    return state ? [{ token, state, expiresAt: Number(parts[0].expires_at), deltas: byName(deltas) }] : []
  })
}

/** Those of deleted counters come first. */
function byName(deltas: HeldDelta[]): HeldDelta[] {
  const bytesOf = ({ key }: HeldDelta) => Buffer.from(key?.name ?? '')
  return deltas.sort((a, b) => Buffer.compare(bytesOf(a), bytesOf(b)))
}

function stateOf(row: HoldRow): ReservationState {
  const { state } = partIn(row)
  return state === 'RESERVED' && row.is_expired ? 'EXPIRED' : state
}

async function listHolds(
  connection: Connection,
  { namespace, name }: CounterKey,
  { limit, fromEnd, after, before }: Page<HoldPosition>,
): Promise<HoldPosition[]> {
  const direction = fromEnd ? 'desc' : 'asc'
  const placeOf = ({ expiresAt, amount, token }: HoldPosition) =>
    `(${integer(expiresAt)}, ${integer(amount)}, ${hex(token)})`
  const conditions = [
    ...(after
      ? [
          `h.open_until >= ${integer(after.expiresAt)}`,
          `(h.open_until, h.amount, h.token) > ${placeOf(after)}`,
        ]
      : []),
    ...(before
      ? [
          `h.open_until <= ${integer(before.expiresAt)}`,
          `(h.open_until, h.amount, h.token) < ${placeOf(before)}`,
        ]
      : []),
  ]
  const rows = await connection.select<Record<'open_until' | 'amount', number> & { token: Buffer }>(
    `select straight_join h.token, h.amount, h.open_until
       from namespace n
       join counter c on c.namespace_id = n.id and c.name = ${bytes(name)}
       join counter_value v on v.counter_id = c.id and v.slot = 0
       join hold h force index (hold_open) on h.counter_id = c.id
      where n.name = ${bytes(namespace)} and h.open_until > greatest(v.held_at, ${NOW_MS})
        ${conditions.map((condition) => `and ${condition}`).join(' ')}
      order by h.open_until ${direction}, h.amount ${direction}, h.token ${direction}
      limit ${integer(limit)}`,
  )
  return rows.map(({ token, amount, open_until }) => ({
    token: token.toString('hex'),
    amount: Number(amount),
    expiresAt: Number(open_until),
  }))
}
