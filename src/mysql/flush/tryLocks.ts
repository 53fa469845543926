import type { RowDataPacket } from 'mysql2'
import type { CounterRun } from '../../core/groupCommit/batch.ts'
import type { FlushBody, Unavailable } from '../../core/groupCommit/writer.ts'
import type { Answer } from '../connections/session.ts'
import { ofSlot } from '../counters/slots.ts'
import { allTime, type CountingRow } from '../counters/update.ts'
import { digest, integer } from '../literals.ts'
import { inOrder as inGroupOrder, type NumberedRun } from '../sequences/numberedRow.ts'
import { inOrder } from './idempotencyKeys.ts'
import { MARK } from './steps.ts'
import type { StoredRow } from './storedRow.ts'

/** Statements that lock without waiting. One that fails shows by its owner what another session has locked. */
export interface LockAttempt {
  statements: string[]
  ownerAt(index: number): string | undefined
  /** Keys of the counters that are locked by another session, or gone. */
  missing(answers: readonly Answer[]): string[]
}

/** MySQL and MariaDB have different syntax for this lock; each executes only its own of these comments. */
const SHARED_NOWAIT = '/*M!100600 lock in share mode nowait */ /*!80001 for share nowait */'

/**
 * Locks the rows of a flush that no other session has locked, in the order in which the flush touches them. Counters
 * are known to exist, so locked ones are skipped. It fails at the first locked claim or sequence group: those may also
 * be missing, and a reservation must not skip a number.
 */
export function tryLocks({ counters, groups, claims }: FlushBody<StoredRow>): LockAttempt {
  const single = counters.filter(({ row }) => row.definition.slots === 1)
  const spread = counters.filter(({ row }) => row.definition.slots > 1)
  const steps: { owner?: string; statement: string }[] = [
    ...inOrder(claims).map(({ key, hash }) => ({ owner: key, statement: lockClaim(hash) })),
    ...(single.length > 0 ? [{ statement: skipLocked(single) }] : []),
    ...spread.map((run) => ({ statement: skipLockedSlots(run) })),
    ...groups.toSorted((a, b) => inGroupOrder({ run: a }, { run: b })).flatMap(lockGroup),
  ]
  const statements = steps.flatMap(({ statement }) => [statement, MARK])
  return {
    statements,
    ownerAt: (index) => steps[index >> 1]?.owner,

    missing(answers) {
      const locked = new Map<number, number>()
      const rows: RowDataPacket[] = answers.flatMap((answer) => (Array.isArray(answer) ? answer : []))
      for (const { counter_id } of rows) locked.set(counter_id, (locked.get(counter_id) ?? 0) + 1)
      const isMissing = (run: CounterRun<CountingRow>) => (locked.get(run.row.id) ?? 0) < rowsOf(run)
      return counters.filter(isMissing).map(({ row }) => row.key)
    },
  }
}

/** Splits counters that could not be locked: locked by another session, or gone. */
export function readMissing({ counters }: FlushBody<StoredRow>, keys: readonly string[]) {
  const missing = counters.filter(({ row }) => keys.includes(row.key))
  return {
    statement: `select counter_id, version
  from counter_value force index (primary)
 where counter_id in (${missing.map(({ row }) => integer(row.id)).join(', ')}) and ${allTime(0)}`,

    read(answer: Answer | undefined): Unavailable {
      const versions = new Map(
        Array.isArray(answer) ? answer.map((row) => [row.counter_id, row.version]) : [],
      )
      const isThere = ({ row }: CounterRun<CountingRow>) => versions.get(row.id) === row.version
      return {
        locked: missing.filter(isThere).map(({ row }) => row.key),
        gone: missing.filter((run) => !isThere(run)).map(({ row }) => row.key),
      }
    },
  }
}

function rowsOf({ row, slot }: CounterRun<CountingRow>): number {
  return slot === undefined ? row.definition.slots : 1
}

function lockClaim(hash: string): string {
  return `select hash as claim from idempotency_key force index (primary) where hash = ${digest(hash)} for update nowait`
}

function skipLocked(runs: readonly CounterRun<CountingRow>[]): string {
  return skippingLocked(
    `counter_id in (${runs.map(({ row }) => integer(row.id)).join(', ')}) and ${allTime(0)}`,
  )
}

function skipLockedSlots({ row, slot }: CounterRun<CountingRow>): string {
  return skippingLocked(`counter_id = ${integer(row.id)} and ${ofSlot(slot)}`)
}

function skippingLocked(which: string): string {
  return `select counter_id
  from counter_value force index (primary)
 where ${which}
   for update skip locked`
}

function lockGroup({ row, periodKey }: NumberedRun): { owner: string; statement: string }[] {
  const { id, sequenceId, key, sequenceKey } = row
  return [
    {
      owner: sequenceKey,
      statement: `select id from sequence force index (primary) where id = ${integer(sequenceId)} ${SHARED_NOWAIT}`,
    },
    {
      owner: key,
      statement: `select id from sequence_group force index (primary) where id = ${integer(id)} for update nowait`,
    },
    {
      owner: key,
      statement: `select group_id
  from sequence_value force index (primary)
 where group_id = ${integer(id)} and period_key = ${integer(periodKey)}
   for update nowait`,
    },
  ]
}
