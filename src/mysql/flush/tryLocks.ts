import type { Claim } from '../../core/idempotency.ts'
import { type Answer, rowsOf, type Session } from '../connections/session.ts'
import { groupBy } from '../groupBy.ts'
import { digest, integer, list } from '../literals.ts'
import { inOrder } from './idempotencyKeys.ts'
import { type CounterMember, hasSlots, type Members, type SequenceGroupMember } from './members.ts'
import { type Step, select } from './steps.ts'

/** MySQL and MariaDB have different syntax for this lock; each executes only its own of these comments. */
const SHARED_NOWAIT = '/*M!100600 lock in share mode nowait */ /*!80001 for share nowait */'

/**
 * Statements that lock the rows of a flush that no other session has locked, in the order in which the flush touches
 * them. Counters are known to exist, so locked ones are skipped. It fails at the first locked claim or sequence group:
 * those may also be missing, and a reservation must not skip a number.
 */
export function tryLocks({ counters, sequenceGroups }: Members, claims: readonly Claim[]): Step[] {
  const [spread, single] = [counters.filter(hasSlots), counters.filter((member) => !hasSlots(member))]
  return [
    ...inOrder(claims).flatMap(({ key, hash }) => lockOne('idempotency_key', `hash = ${digest(hash)}`, key)),
    ...(single.length > 0 ? select(skipLocked(isOneOf(single))) : []),
    ...spread.flatMap(({ row, run }) =>
      select(
        skipLocked(
          `counter_id = ${integer(row.id)}${run.slot === undefined ? '' : ` and slot = ${integer(run.slot)}`}`,
        ),
      ),
    ),
    ...sequenceGroups.flatMap(lockGroup),
  ]
}

/** The counters that `tryLocks` did not lock: locked by another session, or gone. */
export function withoutLock(counters: readonly CounterMember[], answers: readonly Answer[]) {
  const locked = groupBy(answers.flatMap(rowsOf), ({ counter_id }): number => counter_id)
  return counters.filter(({ row, run }) => {
    const rows = run.slot === undefined ? row.definition.slots : 1
    return (locked.get(row.id)?.length ?? 0) < rows
  })
}

/** Splits the keys of counters that could not be locked: locked by another session, or gone. */
export async function splitMissing(session: Session, counters: readonly CounterMember[]) {
  const [answer] = await session.send([
    `select counter_id, version
  from counter_value force index (primary)
 where ${isOneOf(counters)}`,
  ])
  const versions = new Map(rowsOf(answer).map((row) => [row.counter_id, row.version]))
  const keysOf = (isThere: boolean) =>
    counters.filter(({ row }) => (versions.get(row.id) === row.version) === isThere).map(({ row }) => row.key)
  return { locked: keysOf(true), gone: keysOf(false) }
}

function isOneOf(counters: readonly CounterMember[]): string {
  return `counter_id in (${list(counters, ({ row }) => integer(row.id))}) and slot = 0`
}

function skipLocked(which: string): string {
  return `select counter_id
  from counter_value force index (primary)
 where ${which}
   for update skip locked`
}

function lockGroup({ row: { id, sequenceId, key, sequenceKey }, run }: SequenceGroupMember): Step[] {
  const isPosition = `group_id = ${integer(id)} and period_key = ${integer(run.periodKey)}`
  return [
    ...lockOne('sequence', `id = ${integer(sequenceId)}`, sequenceKey, SHARED_NOWAIT),
    ...lockOne('sequence_group', `id = ${integer(id)}`, key),
    ...lockOne('sequence_value', isPosition, key),
  ]
}

function lockOne(table: string, which: string, owner: string, how = 'for update nowait'): Step[] {
  return select(`select 1 from ${table} force index (primary) where ${which} ${how}`, owner)
}
