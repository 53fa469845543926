import { firstRow, rowsOf } from '../connections/session.ts'
import type { CounterMember } from '../flush/members.ts'
import { type Step, select } from '../flush/steps.ts'
import { addToSlot, lockSlots, sumSlots } from './slots.ts'

/** Adds to a slot, or locks one or all of them, and reads their sum. */
export function slotSteps(member: CounterMember, at: Date): Step[] {
  const { row } = member
  const { slot, coalesced, raise } = member.run
  const owner = row.key
  if (slot === undefined) {
    return select(lockSlots(row, undefined), owner, (answer) => {
      const slots = rowsOf(answer)
      const isThere = slots.length > 0 && slots.every(({ version }) => version === row.version)
      member.before = isThere ? sumOf(slots.map(({ value }) => value)) : undefined
      member.revision = sumOf(slots.map(({ revision }) => revision))
    })
  }
  const added = coalesced?.kind === 'add' ? coalesced.delta : undefined
  const change: Step[] =
    added === undefined
      ? select(lockSlots(row, slot), owner, (answer) => {
          member.before = firstRow(answer)?.version === row.version ? 0 : undefined
        })
      : [
          {
            statement: addToSlot(row, slot, added, { at, raise }),
            owner,
            read(answer) {
              member.before = !Array.isArray(answer) && answer.affectedRows === 1 ? 0 : undefined
            },
          },
        ]
  const readSum = select(sumSlots(row), owner, (answer) => {
    const sums = firstRow(answer)
    if (member.before !== undefined) member.before = Number(sums?.value) - (added ?? 0)
    member.revision = Number(sums?.revision) - (coalesced ? raise : 0)
  })
  return [...change, ...readSum]
}

/** A slot may be beyond the safe range although the sum is not. */
function sumOf(values: readonly (number | string)[]): number {
  return Number(values.reduce((sum, value) => sum + BigInt(value), 0n))
}
