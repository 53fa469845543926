import { type Answer, firstRow } from '../connections/session.ts'
import { type Finds, MARK, type Member, type Step } from '../flush/steps.ts'
import { addToSlot, lockSlots, sumSlots } from './slots.ts'

/** Adds to a slot, or locks one or all of them, and reads their sum. */
export function slotSteps({ run, index }: Member, at: Date): Step[] {
  const { row, slot, coalesced, raise } = run
  const owner = row.key
  if (slot === undefined)
    return [{ statement: lockSlots(row, undefined), owner, read: readAll }, { statement: MARK }]
  const change =
    coalesced?.kind === 'add'
      ? [{ statement: addToSlot(row, slot, coalesced.delta, { at, raise }), owner, read: readAffected }]
      : [{ statement: lockSlots(row, slot), owner, read: readVersion }, { statement: MARK }]
  return [...change, { statement: sumSlots(row), owner, read: readSum }, { statement: MARK }]

  function readAll(answer: Answer, { before, revisions }: Finds): void {
    if (!Array.isArray(answer)) return
    const isThere = answer.length > 0 && answer.every(({ version }) => version === row.version)
    before[index] = isThere ? sumOf(answer.map(({ value }) => value)) : undefined
    revisions[index] = sumOf(answer.map(({ revision }) => revision))
  }

  function readAffected(answer: Answer, { before }: Finds): void {
    before[index] = !Array.isArray(answer) && answer.affectedRows === 1 ? 0 : undefined
  }

  function readVersion(answer: Answer, { before }: Finds): void {
    before[index] = firstRow(answer)?.version === row.version ? 0 : undefined
  }

  function readSum(answer: Answer, { before, revisions }: Finds): void {
    const added = coalesced?.kind === 'add' ? coalesced.delta : 0
    const sums = firstRow(answer)
    if (before[index] !== undefined) before[index] = Number(sums?.value) - added
    revisions[index] = Number(sums?.revision) - (coalesced ? raise : 0)
  }
}

/** A slot may be beyond the safe range although the sum is not. */
function sumOf(values: readonly (number | string)[]): number {
  return Number(values.reduce((sum, value) => sum + BigInt(value), 0n))
}
