import { type Applied, onCounter, type Request } from '../commit/call.ts'
import type { GroupCommit } from '../commit/groupCommit.ts'
import { openedColumns } from '../commit/periodStatements.ts'
import { COUNTS } from '../commit/subjectStatements.ts'
import type { FailoverDetector } from '../mysql/health.ts'
import { type Database, joined } from '../mysql/pool.ts'
import { JOINED } from '../mysql/slots.ts'
import {
  bytes,
  FIRST_REVISION,
  firstVersion,
  groupBy,
  integer,
  list,
  MARK,
  type NamedRow,
  nameIn,
  pageByName,
  select,
  selectByName,
} from '../mysql/sql.ts'
import type { Connection } from '../mysql/transactions.ts'
import {
  type CounterKey,
  type CounterOperation,
  type CounterResult,
  type CounterState,
  type Definition,
  type DefinitionChange,
  type Expected,
  keyText,
  type PageByName,
  type Retention,
  repeatedCount,
  unwritten,
} from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import type { OperationResult } from '../rules/idempotency.ts'
import { runningAt } from '../rules/periods.ts'
import type { CounterRow, Row } from '../rules/rows.ts'
import { createSalt } from '../rules/subjects.ts'
import { batchLookups, createRowCache, type Lookup, type RowCache } from './batches.ts'
import {
  COUNTER_EXISTS,
  DEFINITION,
  type DefinitionRow,
  definitionIn,
  JOIN_VALUE,
  STATE,
  type StateRow,
  stateIn,
} from './columns.ts'
import { openHistory } from './history.ts'
import { findOrCreateNamespace, retentionOf } from './namespaces.ts'
import { openSubjects } from './subjects.ts'

export interface CounterChange extends CounterResult {
  key: CounterKey
  at: Date
  /** Whether an earlier call with the same idempotency key made the change. */
  isReplayed: boolean
  /** Whether the subject had counted before: then this is what that call returned, with `appliedDelta` 0. */
  isAlreadyCounted: boolean
  isDeletion?: true
}

/** Options of a call. With a claim, a repeat returns the first result, or IDEMPOTENCY_KEY_REUSED if its arguments differ. */
export type CallOptions = Pick<Request, 'claim' | 'owner' | 'wantsPeriodValues' | 'withRevision' | 'deadline'>

export type CounterDelta = { name: string; delta: number }

/** Maximum additions of one call. */
export const MAX_CHANGES = 1000

/** Maximum counters that are reset in one transaction. */
const BATCH = 500

/** What operations need. */
export interface Means<Name, R extends Row> {
  /** For reads. */
  database: Database
  rows: RowCache<Name, R>
  groupCommit: GroupCommit
  /** Default retention of a namespace. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
}

export function openCounters({
  database,
  rows,
  groupCommit,
  retentionIn,
  now,
}: Means<CounterKey, CounterRow>) {
  const list = (namespace: string, page: PageByName, owner = JOINED) =>
    database.withRetry(owner, (connection) => listCounters(connection, namespace, page))
  const subjects = openSubjects({ database, rows, now }, COUNTS)
  return {
    /** `read`, `readMany`: a name never written has the value 0. All reads of an event loop tick go together. */
    ...batchLookups(keyText, readWith(WHOLE)),
    /** The same without revisions and times, which may be missing. */
    values: batchLookups(keyText, readWith(VALUE_ONLY)),
    ...openHistory(database, retentionIn, now),
    list,

    /** @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN */
    incrementBy: (key: CounterKey, delta: number, options?: CallOptions) =>
      change(key, { kind: 'add', delta }, options),

    /**
     * Adds 1, unless the subject has counted.
     *
     * @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async countOnce(key: CounterKey, subject: string, options?: CallOptions) {
      const deadline = await subjects.ensureSalt(key)
      return change(key, { kind: 'countOnce', subject }, { ...options, deadline })
    },

    /** What a repeated `countOnce` would return now; null: the subject has not counted. */
    async changeOf(
      { namespace, name }: CounterKey,
      subject: string,
      owner = JOINED,
    ): Promise<CounterChange | null> {
      const key = { namespace, name }
      const { first } = (await subjects.first(key, subject, owner)) ?? {}
      return first ? changeOf(key, repeatedCount(first), { at: first.at, isReplayed: false }) : null
    },

    /**
     * Subtracts 1, or 0 where that is refused, if the subject has counted. Null: it has not.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async uncount(key: CounterKey, subject: string, options?: CallOptions): Promise<CounterChange | null> {
      const deadline = await subjects.ensureSalt(key)
      const done = await change(key, { kind: 'uncount', subject }, { ...options, deadline })
      return done.isUncounted ? null : done
    },

    /**
     * Applies up to 1 000 additions: all or none. The same counter may occur several times.
     *
     * @throws {NthError} LIMIT_REACHED or OUT_OF_RANGE with the `index` of the refused addition;
     *   UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async incrementMany(namespace: string, changes: readonly CounterDelta[], options?: CallOptions) {
      const operations = changes.map(({ name, delta }) =>
        onCounter(rows, { namespace, name }, { kind: 'add', delta }),
      )
      const applied = await groupCommit.change({ operations, mode: 'all', ...options })
      return changes.map(({ name }, index) => changeOf({ namespace, name }, applied.results[index], applied))
    },

    /** @throws {NthError} LIMIT_REACHED, UNAVAILABLE, OUTCOME_UNKNOWN; CONFLICT if it is not as expected */
    reset(key: CounterKey, to: number, options?: CallOptions, expected?: Expected, forgetsSubjects = false) {
      const newSalt = forgetsSubjects ? createSalt() : undefined
      return change(key, { kind: 'set', to, expected, newSalt }, options)
    },

    /**
     * Raises a counter to a value, unless it is as high, as `reset` would set it. `definition`: that of one that was never
     * written or defined. A trial changes nothing.
     *
     * @throws {NthError} LIMIT_REACHED, UNAVAILABLE, OUTCOME_UNKNOWN; BAD_USER_INPUT if the definition is invalid
     * @throws {MissingRow} if it doesn't exist, in a trial
     */
    async raise(key: CounterKey, to: number, definition?: DefinitionChange, isTrial = false) {
      const operations = [onCounter(rows, key, { kind: 'raise', to, change: definition })]
      const missingRows = isTrial ? 'fail' : 'create'
      const applied = await groupCommit.change({ operations, mode: 'one', isTrial, missingRows })
      return changeOf(key, applied.results[0], applied)
    },

    /**
     * Resets every counter of a namespace whose name starts with `prefix`, in batches of several hundred: each once, but
     * not all at one instant. A counter that can't be reset doesn't stop the others.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN; its message says how many were reset
     */
    async resetAll(namespace: string, prefix: string, to: number, owner = JOINED): Promise<ResetSummary> {
      const summary: ResetSummary = { resetCount: 0, refusedCount: 0 }
      const onUnfinished = (error: unknown) => unfinished(summary, error)
      let failure: Error | undefined
      let after: string | undefined
      do {
        const page = { prefix, after, limit: BATCH, fromEnd: false }
        const batch = await list(namespace, page, owner).catch(onUnfinished)
        after = batch.length === BATCH ? batch.at(-1)?.name : undefined
        const operations = batch.map((key) => onCounter(rows, key, { kind: 'set', to }))
        const results = await groupCommit.changeEach(operations, owner).catch(onUnfinished)
        const errors = results.filter((result) => result instanceof Error)
        const failures = errors.filter(
          (error) => !(error instanceof NthError && error.code === 'LIMIT_REACHED'),
        )
        failure ??= failures[0]
        summary.refusedCount += errors.length - failures.length
        // Without a result the counter was deleted in the meantime.
        summary.resetCount += results.filter((result) => result !== undefined).length - errors.length
        // If a whole batch fails, the cause is not in its counters.
        if (failures.length === batch.length) break
      } while (after !== undefined)
      return failure ? unfinished(summary, failure) : summary
    },

    /**
     * Changes a counter's definition, not its value. If the time zone changes, the totals of the current periods carry
     * over.
     *
     * @throws {NthError} LIMIT_REACHED if the value is outside the bounds; BAD_USER_INPUT if they exclude every value, or
     *   are combined with slots; UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async define(key: CounterKey, requested: DefinitionChange, { owner, withRevision }: CallOptions = {}) {
      const { timeZone, periods } = requested
      const options = { owner, withRevision, deadline: database.deadline() }
      const retention = timeZone === null || periods === null ? await retentionIn(key.namespace) : undefined
      const kept = { timeZone: timeZone ?? retention?.timeZone, periods: periods ?? retention?.periods }
      return change(key, { kind: 'define', change: { ...requested, ...kept } }, options)
    },

    /**
     * Deletes a counter. Later changes count in a new one, from 0.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async delete(key: CounterKey, options?: CallOptions): Promise<CounterChange> {
      return { ...(await change(key, { kind: 'delete' }, options)), isDeletion: true }
    },
  }

  function readWith<State extends CounterValue>(part: CounterColumns<State>) {
    return joined(database, (connection, lookups: readonly CounterLookup<State>[]) =>
      readCounters(connection, lookups, rows, part),
    )
  }

  async function change(key: CounterKey, operation: CounterOperation, options?: CallOptions) {
    const operations = [onCounter(rows, key, operation)]
    const applied = await groupCommit.change({ operations, mode: 'one', ...options })
    return changeOf(key, applied.results[0], applied)
  }
}

function changeOf(
  key: CounterKey,
  result: OperationResult | undefined,
  applied: Pick<Applied, 'at' | 'isReplayed'>,
): CounterChange {
  if (!result || 'kind' in result) throw new Error('No result for an operation')
  // No spread: with one, a call on a writer in memory took 8 µs of processor time instead of 3 (Node 20).
  return {
    key,
    value: result.value,
    previousValue: result.previousValue,
    appliedDelta: result.appliedDelta,
    at: result.countedAt ?? applied.at,
    isReplayed: applied.isReplayed,
    isAlreadyCounted: result.countedAt !== undefined,
    valuesIn: result.valuesIn,
    definition: result.definition,
    revision: result.revision,
    isUncounted: result.isUncounted,
    isNew: result.isNew,
  }
}

export interface ResetSummary {
  resetCount: number
  /** Counters left unchanged, as the value is outside their bounds. */
  refusedCount: number
}

/** Adds the number of counters reset so far to an error. */
function unfinished({ resetCount }: ResetSummary, error: unknown): never {
  if (!(error instanceof NthError)) throw error
  const message = `${error.message} ${resetCount} counters were reset.`
  throw new NthError(error.code, message, error.details, { cause: error })
}

export function openCounterRows(database: Database, failover: FailoverDetector, maxBytes?: number) {
  return createRowCache(database, failover, {
    maxBytes,
    textOf: keyText,
    read: readCounterRows,
    create: createCounters,
  })
}

/** Columns that identify a counter for flushes, besides its definition. Table alias: c. */
const IDENTITY = 'c.id, c.namespace_id, c.version, c.subject_salt, c.forgotten_at'

type IdentifiedRow = DefinitionRow &
  NamedRow &
  Record<'id' | 'namespace_id' | 'version' | 'forgotten_at', number> & { subject_salt: Buffer | null }

/** Reads counters' rows, by the texts of their keys. */
export async function readCounterRows(connection: Connection, keys: readonly CounterKey[], incarnation = 0) {
  const statement = selectByName(
    keys,
    'c.name',
    (isNamed) =>
      `select n.name as namespace, c.name, ${IDENTITY}, ${DEFINITION}
         from namespace n
         join counter c on c.namespace_id = n.id
        where ${isNamed}`,
  )
  const rows = await select<IdentifiedRow>(connection, statement)
  return new Map(rows.map((row) => [keyText(nameIn(row)), counterRowIn(row, incarnation)] as const))
}

function counterRowIn(row: IdentifiedRow, incarnation: number): CounterRow {
  // No spread: what follows one would be stored outside of the object, which every call reads.
  return {
    kind: 'counter',
    id: row.id,
    namespaceId: row.namespace_id,
    version: row.version,
    incarnation,
    definition: definitionIn(row),
    salt: row.subject_salt?.toString('hex'),
    forgottenSecond: row.forgotten_at,
    changedAt: Number.NEGATIVE_INFINITY,
  }
}

/** Creates counters with their rows. Readers don't see them before their first change or definition. */
async function createCounters(connection: Connection, keys: readonly CounterKey[], at: Date): Promise<void> {
  const inserts: string[] = []
  for (const [namespace, siblings] of groupBy(keys, (key) => key.namespace)) {
    const { id, time_zone, periods } = await findOrCreateNamespace(connection, namespace)
    const rest = `${bytes(time_zone)}, ${bytes(periods)}`
    await connection.query(
      `insert into counter (namespace_id, name, version, time_zone, periods, subject_salt)
       values ${list(
         siblings,
         ({ name }) =>
           `(${integer(id)}, ${bytes(name)}, ${integer(firstVersion())}, ${rest}, x'${createSalt()}')`,
       )}`,
    )
    // Where the first change happens in the same periods, its statement finds them running.
    const opened = openedColumns(runningAt(retentionOf(time_zone, periods), at.getTime()))
    inserts.push(
      `insert into counter_value (counter_id, slot, version, revision${opened.names})
       select id, 0, version, ${FIRST_REVISION}${opened.values}
         from counter
        where namespace_id = ${integer(id)} and name in (${list(siblings, ({ name }) => bytes(name))})`,
    )
  }
  for (const statement of inserts) await connection.query(statement)
}

const FROM_COUNTERS = `from namespace n
           join counter c on c.namespace_id = n.id
           join counter_value v on ${JOIN_VALUE}`

/** In a union with `0` or null, an unsigned column would become a decimal, which the driver returns as a text. */
const UNSIGNED = 'cast(0 as unsigned)'

/** An extra row without a name, with the mark: the revision of counters without a row. */
const READ_MARK = `select null, null, null, null, null, null, null, null, ${MARK}, null, null, ${UNSIGNED}, ${UNSIGNED}, ${UNSIGNED}, null, ${UNSIGNED}`

type MarkRow = { name: null; revision: number | string }

/** The state of a counter, of which all but the value and the definition may be missing. */
export interface CounterValue
  extends Pick<CounterState, 'namespace' | 'name' | 'value' | 'definition'>,
    Partial<Pick<CounterState, 'createdAt' | 'updatedAt'>> {
  revision?: number | undefined
}

type RowById = Pick<StateRow, 'value' | 'revision' | 'created_at' | 'updated_at'> &
  Record<'id' | 'version', number>

type CounterLookup<State> = Lookup<CounterKey, State | CounterState>

/** What is read of a counter whose row is cached: more columns, and its state from them. */
interface CounterColumns<State extends CounterValue> {
  columns: string
  stateOf(key: CounterKey, definition: Definition, row: RowById): State
}

const VALUE_ONLY: CounterColumns<CounterValue> = {
  columns: '',
  stateOf: ({ namespace, name }, definition, { value }) => ({
    namespace,
    name,
    value: Number(value),
    definition,
  }),
}

const WHOLE: CounterColumns<CounterState> = {
  columns: ', revision, created_at, updated_at',
  stateOf: ({ namespace, name }, definition, row) => ({
    namespace,
    name,
    value: Number(row.value),
    definition,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: Number(row.revision),
  }),
}

/**
 * Reads counters: by their ids, if their rows are cached, and the others by their names. A cached row is outdated if its
 * version is: a deletion removes the row with that version, a new definition and a failover that reuses its id change it.
 */
async function readCounters<State extends CounterValue>(
  connection: Connection,
  lookups: readonly CounterLookup<State>[],
  cache: RowCache<CounterKey, CounterRow>,
  { columns, stateOf }: CounterColumns<State>,
): Promise<void> {
  const rows = lookups.map(({ text }) => cache.peek(text))
  const indexes = new Map<number, number>()
  let ids = ''
  for (const [index, row] of rows.entries()) {
    // Of a counter with slots, all rows are summed.
    if (row?.definition.slots !== 1) continue
    indexes.set(row.id, index)
    ids += `,${row.id}`
  }
  if (indexes.size > 0) {
    const found = await select<RowById>(
      connection,
      `select counter_id as id, version, value${columns}
       from counter_value force index (primary)
      where counter_id in (${ids.slice(1)}) and slot = 0 and created_at is not null`,
    )
    for (const row of found) {
      const index = indexes.get(row.id) ?? 0
      const [lookup, known] = [lookups[index], rows[index]]
      if (lookup && known?.version === row.version) lookup.state = stateOf(lookup.key, known.definition, row)
    }
  }
  const others = lookups.filter(({ state }) => state === undefined)
  if (others.length > 0) await readByName(connection, others, cache)
}

/** Reads counters by their names, and caches their rows. */
async function readByName(
  connection: Connection,
  lookups: readonly CounterLookup<CounterValue>[],
  cache: RowCache<CounterKey, CounterRow>,
): Promise<void> {
  const { incarnation } = cache
  const statement = selectByName(
    lookups.map(({ key }) => key),
    'c.name',
    (isNamed) => `select ${STATE}, ${IDENTITY} ${FROM_COUNTERS} where ${isNamed}`,
  )
  const found = await select<(StateRow & IdentifiedRow) | MarkRow>(
    connection,
    `${statement}\nunion all\n${READ_MARK}`,
  )
  const states = new Map<string, CounterState>()
  let mark = 0
  for (const row of found) {
    if (row.name === null) mark = Number(row.revision)
    else {
      const state = stateIn(row)
      const text = keyText(state)
      states.set(text, state)
      cache.add(text, counterRowIn(row, incarnation))
    }
  }
  for (const lookup of lookups) lookup.state = states.get(lookup.text) ?? unwritten(lookup.key, mark)
}

async function listCounters(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, COUNTER_EXISTS]
  const rows = await select<StateRow>(
    connection,
    `select ${STATE} ${FROM_COUNTERS} ${pageByName('c.name', page, conditions)}`,
  )
  return rows.map(stateIn)
}
