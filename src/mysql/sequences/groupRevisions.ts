import type { RowDataPacket } from 'mysql2'
import { type Answer, rowsOf } from '../connections/session.ts'
import { type Finds, MARK, ownerOf, type Step } from '../flush/steps.ts'
import { integer } from '../literals.ts'
import { raisedRevision } from '../revisions.ts'
import { keysOf, type NumberedRun } from './numberedRow.ts'

/** A sequence group whose revision is to be raised. */
interface Raised {
  run: NumberedRun
  raise: number
}

/**
 * Raises the revisions of sequence groups, after their numbers of the current period are locked or changed.
 *
 * @param first initial revision of an unused sequence group, if known
 */
export function raiseStep(raised: readonly Raised[], first?: number): Step {
  const ids = raised.map(({ run }) => integer(run.row.id))
  const [{ raise = 0 } = {}] = raised
  const isSame = raised.every((one) => one.raise === raise)
  const cases = raised.map((one) => `when ${integer(one.run.row.id)} then ${integer(one.raise)}`)
  const by = isSame ? integer(raise) : `case id ${cases.join(' ')} end`
  return {
    statement: `update sequence_group force index (primary)
   set ${raisedRevision('not is_used', by, first)},
       is_used = true
 where id in (${ids.join(', ')})`,
    owner: ownerOf(keysOf(raised)),
  }
}

/** Reads the revisions of sequence groups that this transaction has raised, and computes those before. */
export function readRaised(raised: readonly (Raised & { index: number })[]): Step[] {
  const asked = raised.filter(({ run }) => run.withRevision)
  return readSteps(asked, '', (row, { raise }) => Number(row.revision) - raise)
}

/** Locks sequence groups that this transaction may raise, so that no lock wait comes after COMMIT is sent. */
export function lockRevisions(members: readonly { run: NumberedRun; index: number }[]): Step[] {
  return readSteps(members, 'for update', (row, { run }, { first }) => {
    if (!run.withRevision) return undefined
    return row.is_used === 1 ? Number(row.revision) : first
  })
}

function readSteps<One extends { run: NumberedRun; index: number }>(
  some: readonly One[],
  locking: string,
  before: (row: RowDataPacket, one: One, finds: Finds) => number | undefined,
): Step[] {
  if (some.length === 0) return []
  const statement = `select id, revision, is_used
  from sequence_group force index (primary)
 where id in (${some.map(({ run }) => integer(run.row.id)).join(', ')})
 order by id ${locking}`
  function read(answer: Answer, finds: Finds): void {
    const found = new Map(rowsOf(answer).map((row) => [row.id, row]))
    for (const one of some) {
      const position = finds.positions[one.index]
      const row = found.get(one.run.row.id)
      const own = row && before(row, one, finds)
      if (!position || own === undefined) continue
      // The number of its sequence's definitions, which was read before, is part of the revision.
      finds.positions[one.index] = { ...position, revision: own + (position.revision ?? 0) }
    }
  }
  return [{ statement, owner: ownerOf(keysOf(some)), read }, { statement: MARK }]
}
