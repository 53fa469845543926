import { periodCode, startSecond } from '../commit/periodStatements.ts'
import { COUNTS, NUMBERS, type StoredSubject, type SubjectTable } from '../commit/subjectStatements.ts'
import { ER, failureOf, hasErrorNumber } from '../mysql/errors.ts'
import { openHosts } from '../mysql/hosts.ts'
import { openDatabase } from '../mysql/pool.ts'
import type { Target } from '../mysql/settings.ts'
import { JOBS } from '../mysql/slots.ts'
import { bytes, hex, instant, integer, list, select, timeOf } from '../mysql/sql.ts'
import { type Connection, inTransaction } from '../mysql/transactions.ts'
import { insertKey, readKeys } from '../repository/apiKeys.ts'
import { namespaceIn, namespaceSet, readNamespaces } from '../repository/namespaces.ts'
import { insertDocuments } from '../repository/trustedDocuments.ts'
import { keyText } from '../rules/counter.ts'
import type { Entry, EntryOf, EntryType } from '../rules/entries.ts'
import { isTooLarge, NthError } from '../rules/errors.ts'
import { type Options, OTHER_DEFINITION, type Result } from '../rules/merge.ts'
import type { FirstNumber } from '../rules/sequence.ts'
import { ChangedMeanwhileError, type ImportContext } from './importContext.ts'
import { importCounters, lockCounters } from './importCounters.ts'
import { importReservations } from './importReservations.ts'
import { importGroups, importSequences, lockGroups, lockPositions } from './importSequences.ts'

/** Time limit of a batch, with its retries after conflicts and lost connections. */
const TIME_LIMIT_MS = 120_000
/** How often a batch may find that another session has changed what it has read. */
const MAX_CHANGED_MEANWHILE = 100
/** After so long, a batch that only meets conflicts is divided. */
const DIVIDE_AFTER_MS = 2000

/**
 * Applies entries while others count, each batch in one transaction that takes its locks in the order of the flushes.
 * An entry that was applied before changes nothing: so a batch may run twice, and an import may be repeated. A dry run
 * rolls each batch back.
 */
export function openImporter(target: Target, options: Options) {
  const database = openDatabase(openHosts([target]), {
    timeLimitMs: TIME_LIMIT_MS,
    maxPending: 10,
    isForChanges: true,
  })

  async function attempt(connection: Connection, entries: readonly Entry[]): Promise<Result[]> {
    const [first] = entries
    if (!first) return []
    for (let failures = 0; ; failures++) {
      try {
        return await inTransaction(connection, async () => {
          const context = { ...options, connection, now: await timeOf(connection) }
          // All entries of a batch are of one kind.
          const results = await IMPORTERS[first.type](context, entries as readonly never[])
          if (options.isDryRun) await connection.query('rollback')
          return results
        })
      } catch (error) {
        // Another session has created, deleted or redefined one of them at the same time: it is found now.
        const isFound = error instanceof ChangedMeanwhileError || hasErrorNumber(error, ER.DUP_ENTRY)
        if (!isFound || failures === MAX_CHANGED_MEANWHILE) throw error
      }
    }
  }

  /**
   * On a cluster, each change at another node aborts a transaction that holds the same row. One with a counter that is
   * changed all the time gets through only if it is short. What is too large for one statement is divided as well.
   */
  async function apply(entries: readonly Entry[]): Promise<Result[]> {
    const work = (connection: Connection) => attempt(connection, entries)
    if (entries.length <= 1) return database.withRetry(JOBS, work)
    try {
      return await database.withRetry(JOBS, work, performance.now() + DIVIDE_AFTER_MS)
    } catch (error) {
      if (!(error instanceof NthError)) throw error
      if (!isTooLarge(error) && failureOf(error.cause) !== 'conflict') return database.withRetry(JOBS, work)
      const half = Math.ceil(entries.length / 2)
      return [...(await apply(entries.slice(0, half))), ...(await apply(entries.slice(half)))]
    }
  }

  return {
    /** Applies entries of one kind, each of other names, in the order of their keys. Returns a result for each. */
    apply,
    close: database.close,
  }
}

const IMPORTERS: Record<EntryType, (context: ImportContext, entries: readonly never[]) => Promise<Result[]>> =
  {
    namespace: importNamespaces,
    counter: importCounters,
    counterHistory: importCounters,
    sequence: importSequences,
    sequenceGroup: importGroups,
    sequenceGroupPeriods: importGroups,
    reservation: importReservations,
    counterSubjects: importCounterSubjects,
    sequenceGroupSubjects: importGroupSubjects,
    trustedDocument: importDocuments,
    apiKey: importApiKeys,
    idempotencyKey: importIdempotencyKeys,
  }

async function importNamespaces(
  { connection, overwrite }: ImportContext,
  entries: readonly EntryOf<'namespace'>[],
): Promise<Result[]> {
  const results: Result[] = []
  for (const entry of entries) {
    const [row] = await readNamespaces(connection, `where n.name = ${bytes(entry.name)} for update`)
    const present = row && namespaceIn(row)
    const { leaderboards = present?.leaderboards ?? [] } = entry
    const set = namespaceSet({ ...entry, leaderboards, filled: present?.filled ?? [] })
    if (!present) {
      await connection.query(`insert into namespace set name = ${bytes(entry.name)}, ${set}`)
      results.push({ outcome: 'created' })
    } else if (namespaceSet(present) === set) {
      results.push({ outcome: 'unchanged' })
    } else if (overwrite) {
      await connection.query(`update namespace set ${set} where id = ${integer(row.id)}`)
      results.push({ outcome: 'lowered' })
    } else results.push({ outcome: 'unchanged', note: OTHER_DEFINITION })
  }
  return results
}

/** Adds subjects to those of counters, under the lock of their values: only its holder writes subjects. */
async function importCounterSubjects(
  context: ImportContext,
  entries: readonly EntryOf<'counterSubjects'>[],
): Promise<Result[]> {
  const withoutHistory = entries.map((entry) => ({ ...entry, history: [] }))
  const present = await lockCounters(context.connection, withoutHistory)
  const results: Result[] = []
  for (const { subjects, subjectSalt, period, start, ...key } of entries) {
    const counter = present.get(keyText(key))?.counter
    const second = period === null ? integer(counter?.forgottenSecond ?? 0) : startSecond(start.getTime())
    const placeIn = (id: number) => [integer(id), periodCode(period), second]
    const place = counter?.salt === subjectSalt ? placeIn(counter.id) : undefined
    results.push(await addSubjects(context, COUNTS, place, subjects, (one, other) => one.at < other.at))
  }
  return results
}

/** The same for sequence groups, under the lock of the rows in which they issue numbers. */
async function importGroupSubjects(
  context: ImportContext,
  entries: readonly EntryOf<'sequenceGroupSubjects'>[],
): Promise<Result[]> {
  const withPeriods = entries.map((entry) => ({ ...entry, periods: [entry] }))
  const groupOf = await lockGroups(context, withPeriods)
  await lockPositions(context.connection, withPeriods, groupOf)
  // Those of the latest generation are in force.
  const isBefore = (one: FirstNumber, other: FirstNumber) =>
    one.generation === other.generation ? one.issuedAt < other.issuedAt : one.generation > other.generation
  const results: Result[] = []
  for (const entry of withPeriods) {
    const { id, sequence } = groupOf(entry)
    const place = sequence.salt === entry.subjectSalt ? [integer(id), integer(entry.period)] : undefined
    const subjects = entry.subjects.map((one) => ({ ...one, issuedAt: one.issuedAt.getTime() }))
    results.push(await addSubjects(context, NUMBERS, place, subjects, isBefore))
  }
  return results
}

/** Subjects per statement: at most 60 kB, as a line can't be divided otherwise. */
const MAX_ROWS = 200

/** Adds subjects. Of two calls of one subject, the one before stays: its caller has that number. */
async function addSubjects<First>(
  { connection, isDryRun }: ImportContext,
  { table, key, columns, firstIn, valuesOf, insert }: SubjectTable<never, First>,
  // The values of the key before `subject`; undefined: what has them does not exist, or has another salt.
  place: readonly string[] | undefined,
  subjects: readonly (First & { subject: string })[],
  isBefore: (one: First, other: First) => boolean,
): Promise<Result> {
  // A dry run has not kept what the line of the counter or sequence does. Otherwise that line shows why it was refused.
  const missing = isDryRun ? 'created' : 'refused'
  if (!place) return { outcome: missing, subjects: { [missing]: subjects.length } }
  const rows = await select<StoredSubject>(
    connection,
    `select ${[...key, ...columns].join(', ')}
       from ${table} force index (primary)
      where ${place.map((value, index) => `${key[index]} = ${value}`).join(' and ')}
        and subject in (${list(subjects, ({ subject }) => hex(subject))})
      order by ${key.join(', ')}
        for update`,
  )
  const present = new Map(rows.map((row) => [row.subject.toString('hex'), firstIn(row)]))
  const counts = { created: 0, raised: 0, unchanged: 0 }
  const values: string[] = []
  for (const one of subjects) {
    const other = present.get(one.subject)
    const outcome = !other ? 'created' : isBefore(one, other) ? 'raised' : 'unchanged'
    counts[outcome] += 1
    if (outcome !== 'unchanged') values.push([...place, hex(one.subject), ...valuesOf(one)].join(', '))
  }
  for (let from = 0; from < values.length; from += MAX_ROWS)
    await connection.query(insert(values.slice(from, from + MAX_ROWS)))
  return { outcome: values.length > 0 ? 'raised' : 'unchanged', subjects: counts }
}

/** Creates missing documents. A stored text is never replaced. */
async function importDocuments(
  { connection, now }: ImportContext,
  entries: readonly EntryOf<'trustedDocument'>[],
): Promise<Result[]> {
  const rows = await select<{ id: Buffer }>(
    connection,
    `select id from trusted_document where id in (${list(entries, ({ id }) => bytes(id))})`,
  )
  const present = new Set(rows.map(({ id }) => id.toString()))
  await connection.query(insertDocuments(entries, now))
  return entries.map(({ id }) => ({ outcome: present.has(id) ? 'unchanged' : 'created' }))
}

/**
 * Creates missing keys, with the same id where it is free: it is part of a caller's identity, to which idempotency keys
 * belong. Revokes those that were revoked.
 */
async function importApiKeys(
  { connection }: ImportContext,
  entries: readonly EntryOf<'apiKey'>[],
): Promise<Result[]> {
  const hashes = entries.map(({ hash }) => hash)
  const present = new Map((await readKeys(connection, hashes)).map((key) => [key.hash, key]))
  const taken = await select<{ id: number }>(
    connection,
    `select id from api_key where id in (${list(entries, ({ id }) => integer(id))})`,
  )
  const ids = new Set(taken.map(({ id }) => id))
  const results: Result[] = []
  for (const entry of entries) {
    const { id, hash, revokedAt } = entry
    const key = present.get(hash)
    if (!key) {
      await connection.query(insertKey(entry, ids.has(id) ? null : id))
      ids.add(id)
      results.push({ outcome: 'created' })
    } else if (revokedAt && !key.revokedAt) {
      await connection.query(
        `update api_key
   set revoked_at = ${instant(revokedAt)}
 where hash = ${hex(hash)} and revoked_at is null`,
      )
      results.push({ outcome: 'raised' })
    } else results.push({ outcome: 'unchanged' })
  }
  return results
}

/** Creates missing keys, in the order of their hashes, in which flushes claim them. */
async function importIdempotencyKeys(
  { connection }: ImportContext,
  entries: readonly EntryOf<'idempotencyKey'>[],
): Promise<Result[]> {
  const rows = await select<{ hash: Buffer }>(
    connection,
    `select hash from idempotency_key where hash in (${list(entries, ({ hash }) => hex(hash))})`,
  )
  const present = new Set(rows.map(({ hash }) => hash.toString('hex')))
  const missing = entries.filter(({ hash }) => !present.has(hash))
  if (missing.length > 0) {
    const values = list(missing, ({ hash, fingerprint, results, appliedAt, claimedAt }) => {
      const times = `${instant(appliedAt)}, ${instant(claimedAt)}`
      return `(${hex(hash)}, ${hex(fingerprint)}, ${bytes(JSON.stringify(results))}, ${times})`
    })
    await connection.query(
      `insert into idempotency_key (hash, fingerprint, results, applied_at, claimed_at) values ${values}`,
    )
  }
  return entries.map(({ hash }) => ({ outcome: present.has(hash) ? 'unchanged' : 'created' }))
}
