import type { Members, SequenceGroupMember } from '../flush/members.ts'
import { ownerOf, type Step, select } from '../flush/steps.ts'
import { integer, list } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import type { SequenceGroupRecord } from './record.ts'

type Raised = { row: SequenceGroupRecord; raise: number }

/** After their numbers of the current period are locked or changed. `first`: that of an unused one, if known. */
export function raiseRevisions(raised: readonly Raised[], first?: number): Step {
  const ids = raised.map(({ row }) => integer(row.id))
  const [{ raise = 0 } = {}] = raised
  const isSame = raised.every((one) => one.raise === raise)
  const cases = raised.map((one) => `when ${integer(one.row.id)} then ${integer(one.raise)}`)
  const by = isSame ? integer(raise) : `case id ${cases.join(' ')} end`
  return {
    statement: `update sequence_group force index (primary)
   set ${raisedRevision('not is_used', by, first)},
       is_used = true
 where id in (${ids.join(', ')})`,
    owner: ownerOf(raised),
  }
}

/** Reads the revisions of sequence groups that this transaction has raised, and computes those before. */
export function readRaised(sequenceGroups: readonly SequenceGroupMember[]): Step[] {
  const wanted = sequenceGroups.filter(({ run }) => run.withRevision)
  return readSteps(wanted, '', ({ revision }, { run }) => Number(revision) - run.operations)
}

/** Locks sequence groups that this transaction may raise, so that no lock wait comes after COMMIT is sent. */
export function lockRevisions(members: Members, sequenceGroups: readonly SequenceGroupMember[]): Step[] {
  return readSteps(sequenceGroups, 'for update', ({ revision, is_used }, { run }) => {
    if (!run.withRevision) return undefined
    return is_used === 1 ? Number(revision) : members.first
  })
}

type RevisionRow = Record<'id' | 'is_used', number> & { revision: string | number }

function readSteps(
  sequenceGroups: readonly SequenceGroupMember[],
  locking: string,
  revisionBefore: (row: RevisionRow, member: SequenceGroupMember) => number | undefined,
): Step[] {
  if (sequenceGroups.length === 0) return []
  const statement = `select id, revision, is_used
  from sequence_group force index (primary)
 where id in (${list(sequenceGroups, ({ row }) => integer(row.id))})
 order by id ${locking}`
  return select<RevisionRow>(statement, ownerOf(sequenceGroups), (found) => {
    const rows = new Map(found.map((row) => [row.id, row]))
    for (const member of sequenceGroups) {
      const row = rows.get(member.row.id)
      const before = row && revisionBefore(row, member)
      // The number of its sequence's definitions, which was read before, is part of the revision.
      if (member.found && before !== undefined) member.found.revision = before + (member.found.revision ?? 0)
    }
  })
}
