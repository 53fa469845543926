import type { Claim } from '../../core/idempotency.ts'
import { rowsOf, type Session } from '../connections/session.ts'
import type { CounterRecordWork } from '../counters/record.ts'
import { slotOf } from '../counters/slots.ts'
import { groupBy } from '../groupBy.ts'
import { digest, integer } from '../literals.ts'
import type { SequenceGroupRecordWork } from '../sequences/record.ts'
import { inOrder } from './idempotencyKeys.ts'
import { idsOf, type Section, type Statement, select } from './statements.ts'

/** MySQL and MariaDB have different syntax for this lock; each executes only its own of these comments. */
const SHARED_NOWAIT = '/*M!100600 lock in share mode nowait */ /*!80001 for share nowait */'

/**
 * Statements that lock the rows of a flush that no other session has locked, in the order in which the flush touches
 * them. Counters are known to exist, so locked ones are skipped: they are returned, and so are those that are gone. It
 * fails at the first locked claim or sequence group: those may also be missing, and a reservation must not skip a number.
 */
export function tryLocks(
  counters: readonly CounterRecordWork[],
  sequenceGroups: readonly SequenceGroupRecordWork[],
  claims: readonly Claim[],
): Section<CounterRecordWork[]> {
  const single = counters.filter(({ row }) => row.definition.slots === 1)
  const slotted = counters.filter(({ row }) => row.definition.slots > 1)
  const claiming = inOrder(claims).map(({ key, hash }) =>
    lockOne('idempotency_key', `hash = ${digest(hash)}`, key),
  )
  const counting = [
    ...(single.length > 0 ? [skipLocked(isOneOf(single))] : []),
    ...slotted.map((work) => {
      const slot = slotOf(work)
      return skipLocked(
        `counter_id = ${integer(work.row.id)}${slot === undefined ? '' : ` and slot = ${integer(slot)}`}`,
      )
    }),
  ]
  return {
    statements: [...claiming, ...counting, ...sequenceGroups.flatMap(lockGroup)],
    read(answers) {
      const rows = answers.slice(claiming.length, claiming.length + counting.length).flatMap(rowsOf)
      const locked = groupBy(rows, ({ counter_id }): number => counter_id)
      return counters.filter((work) => {
        const { id, definition } = work.row
        const slots = slotOf(work) === undefined ? definition.slots : 1
        return (locked.get(id)?.length ?? 0) < slots
      })
    },
  }
}

/** Splits the keys of counters that could not be locked: locked by another session, or gone. */
export async function splitMissing(session: Session, counters: readonly CounterRecordWork[]) {
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

function isOneOf(counters: readonly CounterRecordWork[]): string {
  return `counter_id in (${idsOf(counters)}) and slot = 0`
}

function skipLocked(which: string): Statement {
  return select(`select counter_id
  from counter_value force index (primary)
 where ${which}
   for update skip locked`)
}

function lockGroup({ row, periodKey }: SequenceGroupRecordWork): Statement[] {
  const { id, sequenceId, key, sequenceKey } = row
  const isPosition = `group_id = ${integer(id)} and period_key = ${integer(periodKey)}`
  return [
    lockOne('sequence', `id = ${integer(sequenceId)}`, sequenceKey, SHARED_NOWAIT),
    lockOne('sequence_group', `id = ${integer(id)}`, key),
    lockOne('sequence_value', isPosition, key),
  ]
}

function lockOne(table: string, which: string, owner: string, how = 'for update nowait'): Statement {
  return select(`select 1 from ${table} force index (primary) where ${which} ${how}`, owner)
}
