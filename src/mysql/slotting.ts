import type { RowDataPacket } from 'mysql2'
import { type Answer, firstRow } from './session.ts'
import { addToSlot, lockSlots, sumSlots } from './slots.ts'
import { type Finds, MARK, type Member, type Step } from './steps.ts'

/** Adds to a slot, or locks it, or all of them; and reads their sum. */
export function slotSteps({ run, index }: Member, at: Date): Step[] {
  const { row, slot, merged } = run
  const owner = row.key
  if (slot === undefined)
    return [{ statement: lockSlots(row, undefined), owner, read: readAll }, { statement: MARK }]
  const change =
    merged?.kind === 'add'
      ? [{ statement: addToSlot(row, slot, merged.delta, at), owner, read: readAffected }]
      : [{ statement: lockSlots(row, slot), owner, read: readVersion }, { statement: MARK }]
  return [...change, { statement: sumSlots(row), owner, read: readSum }, { statement: MARK }]

  function readAll(answer: Answer, { before }: Finds): void {
    if (!Array.isArray(answer)) return
    const isThere = answer.length > 0 && answer.every(({ version }) => version === row.version)
    before[index] = isThere ? sumOf(answer) : undefined
  }

  function readAffected(answer: Answer, { before }: Finds): void {
    before[index] = !Array.isArray(answer) && answer.affectedRows === 1 ? 0 : undefined
  }

  function readVersion(answer: Answer, { before }: Finds): void {
    before[index] = firstRow(answer)?.version === row.version ? 0 : undefined
  }

  function readSum(answer: Answer, { before }: Finds): void {
    const added = merged?.kind === 'add' ? merged.delta : 0
    if (before[index] !== undefined) before[index] = Number(firstRow(answer)?.value) - added
  }
}

/** A slot may hold what is beyond the safe range, where their sum isn't. */
function sumOf(rows: readonly RowDataPacket[]): number {
  return Number(rows.reduce((sum, { value }) => sum + BigInt(value), 0n))
}
