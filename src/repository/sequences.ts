import { randomBytes } from 'node:crypto'
import { type Applied, MissingRow, onSequenceGroup, type Request } from '../commit/call.ts'
import {
  codeOf,
  isAbandoned,
  isToken,
  OPEN,
  type ReservationRow,
  reservationIn,
} from '../commit/reservations.ts'
import { NUMBERS } from '../commit/subjectStatements.ts'
import type { Connection } from '../mysql/connection.ts'
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
  listByName,
  type NamedRow,
  nameIn,
  pageByName,
  readValue,
  selectByName,
  selectByParent,
} from '../mysql/sql.ts'
import { keyText, type PageByName } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import type { Claim } from '../rules/idempotency.ts'
import type { SequenceGroupRow } from '../rules/rows.ts'
import {
  noSuchReservation,
  notGapless,
  type Reservation,
  repeatedNumber,
  type SequenceGroupKey,
  type SequenceKey,
  type SequenceNumbers,
  type SequenceOperation,
  type SequenceResult,
  type SequenceState,
  sequenceGroupKeyText,
} from '../rules/sequence.ts'
import { groupRefusal, type SequenceDefinitionChange } from '../rules/sequenceDefinition.ts'
import type { Owner } from '../rules/turns.ts'
import { batchReads, createRowCache } from './batches.ts'
import {
  type KeyRow,
  keyIn,
  SEQUENCE_COLUMNS,
  SEQUENCE_EXISTS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from './columns.ts'
import type { CallOptions, OperationDependencies } from './counters.ts'
import {
  defineSequence,
  deleteSequence,
  findOrCreateSequence,
  type ImportedHistory,
} from './sequenceDefinition.ts'
import { listSequenceGroups, readStatesOfGroups, sequenceText } from './sequenceGroups.ts'
import { openSubjects } from './subjects.ts'

const TOKEN_BYTES = 16

type Raise = Omit<Extract<SequenceOperation, { kind: 'raise' }>, 'kind'> & { isTrial: boolean }

export function openSequences(
  dependencies: OperationDependencies<SequenceGroupKey, SequenceGroupRow> & { definitions: Database },
) {
  const { database, definitions, rows, groupCommit, retentionIn, now } = dependencies
  const { read, readMany } = batchReads(keyText, joined(database, readSequences), unused)
  const readStates = joined(database, readStatesOfGroups)
  const groups = batchReads(sequenceGroupKeyText, (keys: readonly SequenceGroupKey[]) =>
    readStates(keys, now()),
  )
  const reservations = batchReads(tokenOf, joined(database, readReservations), () => undefined)
  const subjects = openSubjects({ database, rows, now }, NUMBERS)

  function change(
    key: SequenceGroupKey,
    operation: SequenceOperation,
    options?: CallOptions & Pick<Request, 'isTrial' | 'missingRows'>,
  ): Promise<Applied> {
    const operations = [onSequenceGroup(rows, key, operation)]
    return groupCommit.change({ operations, mode: 'one', ...options })
  }

  /** A number that will be refused must not create its sequence group. Returns the deadline of the call. */
  async function assertIssues(key: SequenceGroupKey, isReserved: boolean): Promise<number> {
    const { namespace, sequence: name, group } = key
    const deadline = database.deadline()
    if ((group === '' && !isReserved) || (await rows.load(key))) return deadline
    const { definition } = await read({ namespace, name })
    const refusal =
      isReserved && !definition?.gapless ? notGapless() : definition && groupRefusal(definition, group)
    if (refusal) throw refusal
    return deadline
  }

  async function close(kind: 'confirm' | 'release', token: string, owner?: Owner): Promise<Reservation> {
    const options = { owner, deadline: database.deadline(), missingRows: 'fail' } as const
    const reservation = await reservations.read({ token })
    if (!reservation) throw noSuchReservation()
    const applied = await change(reservation.group, { kind, token }, options).catch((error) => {
      // The sequence was deleted in the meantime.
      throw error instanceof MissingRow ? noSuchReservation() : error
    })
    return resultAs('reservation', applied)
  }

  return {
    read,
    readSequenceGroup: groups.read,
    /** Results are in the order of the keys. */
    readMany,
    readSequenceGroups: groups.readMany,
    readEachSequenceGroup: groups.readEach,
    list: (namespace: string, page: PageByName, owner = JOINED) =>
      database.withRetry(owner, (connection) => listSequences(connection, namespace, page)),
    listSequenceGroups: (sequence: SequenceKey, page: PageByName, owner = JOINED) =>
      database.withRetry(owner, (connection) => listSequenceGroups(connection, sequence, page, now())),

    /**
     * Issues `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat returns the first ones.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT for more than a cycle has, or if the
     *   sequence is gapless; IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async next(key: SequenceGroupKey, count: number, options?: CallOptions): Promise<SequenceNumbers> {
      const deadline = rows.cached(key) ? undefined : await assertIssues(key, false)
      const applied = await change(key, { kind: 'next', count }, { deadline, ...options })
      return { key, issued: resultAs('numbers', applied), at: applied.at, isReplayed: applied.isReplayed }
    },

    /**
     * Issues the next number to a subject, unless it has one in the current period: then it returns that.
     *
     * @throws {NthError} as for `next`
     */
    async nextOnce(key: SequenceGroupKey, subject: string, options?: CallOptions): Promise<SequenceNumbers> {
      const checkedBy = rows.cached(key) ? undefined : await assertIssues(key, false)
      const saltedBy = await subjects.ensureSalt(key)
      const deadline = checkedBy ?? saltedBy
      const applied = await change(key, { kind: 'nextOnce', subject }, { deadline, ...options })
      const issued = resultAs('numbers', applied)
      const at = issued.earlier ? new Date(issued.earlier.issuedAt) : applied.at
      return { key, issued, at, isReplayed: applied.isReplayed }
    },

    /** What a repeated `nextOnce` would return now; null: the subject has no number. */
    async numbersOf({ namespace, sequence, group }: SequenceGroupKey, subject: string, owner = JOINED) {
      const key = { namespace, sequence, group }
      const { row, first } = (await subjects.first(key, subject, owner)) ?? {}
      if (!row || !first) return null
      const issued = repeatedNumber(first, row.definition)
      return { key, issued, at: new Date(first.issuedAt), isReplayed: false }
    },

    /**
     * Restarts a sequence group at a number. Null or undefined: at `startValue`.
     *
     * @throws {NthError} LIMIT_REACHED, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async restart(key: SequenceGroupKey, nextValue: number | null = null, options?: CallOptions) {
      const applied = await change(key, { kind: 'restart', nextValue }, options)
      return { key, ...resultAs('restart', applied), isReplayed: applied.isReplayed }
    },

    /**
     * Moves a sequence group on to a position of another system in a period, unless it is as far. `isIssued`: its present
     * definition has issued these numbers. A trial changes nothing.
     *
     * @throws {NthError} LIMIT_REACHED; BAD_USER_INPUT if the period is not one of the sequence, or a gapless group has
     *   reserved numbers in it; CONFLICT, UNAVAILABLE, OUTCOME_UNKNOWN
     * @throws {MissingRow} if it doesn't exist, in a trial
     */
    async raise(key: SequenceGroupKey, { isTrial, ...raise }: Raise) {
      const missingRows = isTrial ? 'fail' : 'create'
      const applied = await change(key, { kind: 'raise', ...raise }, { isTrial, missingRows })
      return resultAs('raise', applied).outcome
    },

    /**
     * Reserves the first free number of a gapless sequence for some seconds. A repeat returns the first reservation in
     * its current state.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT if the sequence is not gapless;
     *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async reserve(
      key: SequenceGroupKey,
      ttlSeconds: number,
      claim?: Claim,
      owner?: Owner,
    ): Promise<Reservation> {
      const deadline = rows.cached(key) ? database.deadline() : await assertIssues(key, true)
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const operation = { kind: 'reserve', token, ttlMs: ttlSeconds * 1000 } as const
      const applied = await change(key, operation, { claim, owner, deadline })
      const reservation = resultAs('reservation', applied)
      const present = applied.isReplayed ? await reservations.read(reservation) : reservation
      if (!present)
        throw new NthError('NOT_FOUND', 'The reservation made with this idempotency key no longer exists.')
      return present
    },

    /**
     * Confirms a reserved number. A repeat returns the same result.
     *
     * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    confirm: (token: string, owner?: Owner) => close('confirm', token, owner),
    /** Releases a reserved number. Repeats and errors as for `confirm`. */
    release: (token: string, owner?: Owner) => close('release', token, owner),
    /** Reads a reservation in its current state, with its sequence group; undefined: it doesn't exist. */
    reservation: (token: string) => reservations.read({ token }),
    /** The same for many, in their order. */
    reservations: reservations.readMany,
    readEachReservation: reservations.readEach,

    /**
     * Changes a sequence definition. `imported`: how its numbers were issued in another system; then one that is used or
     * defined here is left as it is.
     *
     * @throws {NthError} BAD_USER_INPUT if it is invalid, or numbers could be issued that look like earlier ones;
     *   UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async define(
      { namespace, name }: SequenceKey,
      requested: SequenceDefinitionChange,
      owner = JOINED,
      imported?: ImportedHistory,
    ): Promise<SequenceState> {
      const deadline = database.deadline(owner)
      const timeZone =
        requested.timeZone === null ? (await retentionIn(namespace)).timeZone : requested.timeZone
      const change = { ...requested, timeZone }
      return defineSequence(definitions, { namespace, name }, change, now(), owner, deadline, imported)
    },

    /**
     * Deletes a sequence with all its sequence groups. Later numbers start from the beginning.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async delete(key: SequenceKey, owner = JOINED): Promise<SequenceState> {
      await deleteSequence(definitions, key, owner)
      return unused(key)
    },
  }
}

const tokenOf = ({ token }: { token: string }) => token

/** The result of a call, of the expected kind. */
function resultAs<Kind extends SequenceResult['kind']>(kind: Kind, { results: [result] }: Applied) {
  if (!result || !('kind' in result) || result.kind !== kind) throw new Error(`No result of kind ${kind}`)
  // Its `kind` identifies it.
  return result as Extract<SequenceResult, { kind: Kind }>
}

function unused({ namespace, name }: SequenceKey): SequenceState {
  return { namespace, name, definition: undefined, createdAt: null }
}

export function openSequenceGroupRows(database: Database, failover: FailoverDetector, maxBytes?: number) {
  return createRowCache(database, failover, {
    maxBytes,
    textOf: sequenceGroupKeyText,
    read: readSequenceGroups,
    create: createSequenceGroups,
  })
}

type IdentifiedGroupRow = KeyRow &
  SequenceDefinitionRow &
  Record<'id' | 'identity' | 'sequence_id' | 'version', number> & { subject_salt: Buffer | null }

/** Reads sequence groups' rows, by the texts of their keys. */
export async function readSequenceGroups(
  connection: Connection,
  keys: readonly SequenceGroupKey[],
  incarnation = 0,
) {
  const statement = selectByParent(
    keys,
    sequenceText,
    (siblings) =>
      `select n.name as namespace, s.name as sequence, g.name as its_group, g.id, g.identity,
              s.id as sequence_id, s.version, s.subject_salt, ${SEQUENCE_COLUMNS}
         from namespace n
         join sequence s on s.namespace_id = n.id
         join sequence_group g on g.sequence_id = s.id
        where n.name = ${bytes(siblings[0].namespace)} and s.name = ${bytes(siblings[0].sequence)}
          and g.name in (${list(siblings, ({ group }) => bytes(group))})`,
  )
  const rows = await connection.select<IdentifiedGroupRow>(statement)
  return new Map(
    rows.map((row) => {
      const { id, identity, version, sequence_id: sequenceId } = row
      const group: SequenceGroupRow = {
        kind: 'sequenceGroup',
        group: row.its_group.toString(),
        definition: sequenceDefinitionIn(row),
        id,
        sequenceId,
        identity,
        incarnation,
        version,
        salt: row.subject_salt?.toString('hex'),
        issuedIn: undefined,
      }
      return [sequenceGroupKeyText(keyIn(row)), group]
    }),
  )
}

/** Creates sequence groups, each of another name, and their sequences where missing. */
async function createSequenceGroups(connection: Connection, keys: readonly SequenceGroupKey[], at: Date) {
  const groups: string[] = []
  for (const siblings of groupBy(keys, sequenceText).values()) {
    const { namespace, sequence } = siblings[0]
    const id = await findOrCreateSequence(connection, { namespace, name: sequence }, at)
    for (const { group } of siblings)
      groups.push(`${integer(id)}, ${bytes(group)}, ${integer(firstVersion())}`)
  }
  const revision = integer(await readValue(connection, FIRST_REVISION))
  await connection.query(
    `insert into sequence_group (sequence_id, name, identity, revision, is_used)
     values ${list(groups, (group) => `(${group}, ${revision}, false)`)}`,
  )
}

const FROM_SEQUENCES = `from namespace n
           join sequence s on s.namespace_id = n.id`

const SELECT_SEQUENCES = `select n.name as namespace, s.name, s.created_at, ${SEQUENCE_COLUMNS}
           ${FROM_SEQUENCES}`

function readSequences(connection: Connection, keys: readonly SequenceKey[]) {
  const selectNamed = (isNamed: string) => `${SELECT_SEQUENCES} where ${isNamed} and ${SEQUENCE_EXISTS}`
  return sequencesIn(connection, selectByName(keys, 's.name', selectNamed))
}

function listSequences(connection: Connection, namespace: string, page: PageByName) {
  const conditions = [`n.name = ${bytes(namespace)}`, SEQUENCE_EXISTS]
  const names = { column: 's.name', from: FROM_SEQUENCES, conditions }
  return listByName(connection, names, page, (page) =>
    sequencesIn(connection, `${SELECT_SEQUENCES} ${pageByName('s.name', page, conditions)}`),
  )
}

async function sequencesIn(connection: Connection, statement: string): Promise<SequenceState[]> {
  const rows = await connection.select<SequenceDefinitionRow & NamedRow & { created_at: Date }>(statement)
  return rows.map((row) => ({
    ...nameIn(row),
    definition: sequenceDefinitionIn(row),
    createdAt: row.created_at,
  }))
}

/** Reads the current state of reservations whose sequences exist, with their sequence groups. */
async function readReservations(connection: Connection, tokens: readonly { token: string }[]) {
  const rows = await connection.select<ReservationRow & KeyRow>(
    `select r.token, r.group_id, r.period_key, r.generation, r.value, r.formatted, r.is_free, r.expires_at,
       if(r.state = ${OPEN} and (r.expires_at <= utc_timestamp(3) or ${isAbandoned()}), ${codeOf('EXPIRED')}, r.state) as state,
       n.name as namespace, s.name as sequence, g.name as its_group
  from reservation r
  join sequence_group g on g.id = r.group_id
  join sequence s on s.id = g.sequence_id
  join namespace n on n.id = s.namespace_id
 where r.${isToken(tokens.map(tokenOf))}`,
  )
  return rows.map((row) => ({ ...reservationIn(row), group: keyIn(row) }))
}
