import type { RowDataPacket } from 'mysql2'
import type { Flush } from '../../core/groupCommit/writer.ts'
import { lockDefinition } from '../counters/define.ts'
import { periodTotalSteps } from '../counters/periods.ts'
import { slotSteps } from '../counters/slots.ts'
import { addReturningOld, change, lock, readRevisions } from '../counters/update.ts'
import { groupBy } from '../groupBy.ts'
import { REVISION_OF_NOW } from '../revisions.ts'
import { mayAdvance } from '../sequences/advance.ts'
import { lockSequenceGroups } from '../sequences/lockAndRead.ts'
import { claim, earlierIn, inOrder, readResults } from './idempotencyKeys.ts'
import { type CounterMember, hasSlots, type Members } from './members.ts'
import { type FlushForm, NARROW, ownerOf, type Step, select, together } from './steps.ts'

/**
 * The statements of a flush's first round trip. Every process touches keys and rows in this one order, so that flushes
 * don't deadlock. All lock waits are here: after COMMIT is sent, an error would leave the outcome unknown.
 */
export function lockAndRead(members: Members, flush: Flush, form: FlushForm): Step[] {
  const { counters } = members
  const { at } = flush
  const [spread, single] = [counters.filter(hasSlots), counters.filter((member) => !hasSlots(member))]
  return [
    ...claimSteps(members, flush, form),
    ...firstRevisionSteps(members, form),
    ...changeSteps(members, single, at, form),
    ...revisionSteps(single),
    ...spread.flatMap((member) => slotSteps(member, at)),
    ...lockSequenceGroups(members, at, form),
    ...periodTotalSteps(counters, at, form),
    ...counters
      .filter(({ run }) => run.isForDefinition)
      .flatMap(({ row }) => lockDefinition(row).flatMap((statement) => select(statement, row.key))),
  ]
}

/** Reads locked rows whose value the answer did not show. */
export function readAgain(members: Members, unsure: readonly CounterMember[]): Step[] {
  return unsure.map((member) => lockStep(members, [member]))
}

function claimSteps(members: Members, { claims, at }: Flush, form: FlushForm): Step[] {
  if (claims.length === 0) return []
  return [
    ...together(inOrder(claims), form).map(
      (some): Step => ({
        statement: claim(some, at),
        owner: some.length === 1 ? some[0]?.key : undefined,
        readResult({ affectedRows }) {
          members.claimed += affectedRows
        },
      }),
    ),
    ...select(readResults(claims), undefined, (rows) => {
      members.earlier.push(...earlierIn(rows))
    }),
  ]
}

/** Reads the initial revision of rows that only the second round trip writes, as results need it before. */
function firstRevisionSteps(members: Members, form: FlushForm): Step[] {
  const isWanted =
    members.counters.some(({ run }) => run.withRevision && !run.coalesced) ||
    members.sequenceGroups.some((member) => member.run.withRevision && !mayAdvance(member, form))
  if (!isWanted) return []
  return select(`select ${REVISION_OF_NOW} as first`, undefined, ([row]) => {
    members.first = row?.first
  })
}

/** Reads the revisions of rows that are already changed, where wanted. */
function revisionSteps(counters: readonly CounterMember[]): Step[] {
  const wanted = counters.filter(({ run }) => run.withRevision && run.coalesced)
  if (wanted.length === 0) return []
  const statement = readRevisions(wanted.map(({ row }) => row.id))
  return select(statement, ownerOf(wanted), (rows) => {
    const found = new Map(rows.map((row) => [row.id, row]))
    for (const member of wanted) {
      const row = found.get(member.row.id)
      member.revision = row && row.revision - member.run.raise
    }
  })
}

function changeSteps(members: Members, counters: CounterMember[], at: Date, form: FlushForm): Step[] {
  if (counters.length > NARROW && !form.onePerStatement) return lockAndChange(members, counters, at)
  return counters.flatMap((member): Step | Step[] => {
    const { coalesced, raise } = member.run
    if (coalesced?.kind !== 'add' || form.isTriggered) return lockAndChange(members, [member], at)
    return {
      statement: addReturningOld(member.row, coalesced.delta, { at, raise }),
      owner: member.row.key,
      readResult({ affectedRows, insertId }) {
        const value = insertId === 0 ? 'unsure' : Number(insertId)
        member.before = affectedRows === 0 ? undefined : value
      },
    }
  })
}

/** Locks rows, and changes those of coalesced runs, with one statement for all that have the same operation. */
function lockAndChange(members: Members, counters: CounterMember[], at: Date): Step[] {
  const { statement, owner, readRows } = lockStep(members, counters)
  const alike = groupBy(counters, ({ run }) => JSON.stringify([run.coalesced, run.raise]))
  const changes = [...alike.values()].flatMap((group) => {
    const { coalesced, raise } = group[0].run
    const ids = group.map(({ row }) => row.id)
    return coalesced ? [{ statement: change(ids, coalesced, { at, raise }), owner }] : []
  })
  return [...select(statement, owner, readRows), ...changes]
}

function lockStep(members: Members, counters: CounterMember[]): Step {
  return {
    statement: lock(counters.map(({ row }) => row.id)),
    owner: ownerOf(counters),
    readRows(rows: RowDataPacket[]) {
      const found = new Map(rows.map((row) => [row.id, row]))
      for (const member of counters) {
        const row = found.get(member.row.id)
        const { coalesced } = member.run
        // Where the addition did not show the value before, it is already included.
        const added = member.before === 'unsure' && coalesced?.kind === 'add' ? coalesced.delta : 0
        member.before = row?.version === member.row.version ? Number(row?.value) - added : undefined
        if (!coalesced) member.revision = row?.revision ?? members.first
      }
    },
  }
}
