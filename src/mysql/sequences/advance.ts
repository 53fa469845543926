import type { SequenceGroupMember } from '../flush/members.ts'
import { type FlushForm, type Step, together } from '../flush/steps.ts'
import { instant, integer } from '../literals.ts'
import { isIssuedIn } from './record.ts'
import { raiseRevisions, readRaised } from './revisions.ts'

/** Maximum sequence groups cached as hidden: the answers lack their last number. */
const MAX_HIDDEN = 10_000

/** Whether one addition can issue the numbers, as far as known: the row exists, with this definition. */
export function mayAdvance({ row, run }: SequenceGroupMember, { hidden }: FlushForm): boolean {
  const { definition, id } = row
  const isKnown = isIssuedIn(row, run.periodKey, definition)
  return isKnown && run.advance !== undefined && !definition.gapless && !hidden.has(id)
}

export function advanceSteps(members: readonly SequenceGroupMember[], at: Date, form: FlushForm): Step[] {
  return [
    ...members.map((member) => advanceStep(member, at, form)),
    ...together(members, form).flatMap((some) => [
      raiseRevisions(some.map(({ row, run }) => ({ row, raise: run.operations }))),
      ...readRaised(some),
    ]),
  ]
}

/**
 * Adds all numbers taken to a row, unless a restart has set its next number, and returns the last number before in the
 * answer: MySQL Cookbook, "single-row sequence generators". Less work for the server than to lock, read and write it.
 * (With 20 callers of two sequence groups, a flush took 0.50 ms rather than 0.59 on a machine of two cores.)
 */
function advanceStep(member: SequenceGroupMember, at: Date, { hidden }: FlushForm): Step {
  const { row, run } = member
  const { id, identity, version, key: owner } = row
  const statement = `update sequence_value
   set updated_at = ${instant(at)},
       value = cast(last_insert_id(value) as signed) + ${integer(run.advance ?? 0)}
 where group_id = ${integer(id)} and period_key = ${integer(run.periodKey)} and identity = ${integer(identity)}
   and value is not null and next_value is null`
  return {
    statement,
    owner,
    readResult({ affectedRows, insertId }) {
      const { found } = member
      member.found = undefined
      // With another version, the definition has changed, so the row was advanced by a wrong amount.
      if (!found || row.version !== version || affectedRows === 0) return
      if (insertId !== 0) member.found = { ...found, last: Number(insertId), isAdvanced: true }
      else {
        // Cleared when full: its sequence groups are detected again.
        if (hidden.size >= MAX_HIDDEN) hidden.clear()
        hidden.add(id)
      }
    },
  }
}
