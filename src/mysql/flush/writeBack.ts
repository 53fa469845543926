import type { ValueOperation } from '../../core/counters/apply.ts'
import type { CounterRun } from '../../core/groupCommit/batch.ts'
import type { Decision, FlushBody } from '../../core/groupCommit/writer.ts'
import { redefine, remove } from '../counters/define.ts'
import { type Addition, addInPeriods, guardOf, openFrames } from '../counters/periods.ts'
import { addToSlot, setSlots } from '../counters/slots.ts'
import { type CountingRow, change } from '../counters/update.ts'
import { groupWriteSteps } from '../sequences/writeGroups.ts'
import { releaseKey, storeResults } from './idempotencyKeys.ts'
import { type FlushForm, type FlushText, type Step, textOf } from './steps.ts'
import type { StoredRow } from './storedRow.ts'

/**
 * The statements that write a decision: rows on the locked path, sequence groups, period totals and idempotency keys.
 */
export function writeDecided(
  { counters, groups, at }: FlushBody<StoredRow>,
  { values, first }: { values: readonly (number | undefined)[]; first: number | undefined },
  { writes, groupWrites, added, toStore, toRelease }: Decision,
  form: FlushForm,
): FlushText {
  const { onePerStatement } = form
  const counted: Written[] = []
  const steps: Step[] = []
  for (const [index, run] of counters.entries()) {
    const write = writes[index]
    if (write === undefined) continue
    const { row, slot } = run
    const { key } = row
    const from = values[index] ?? 0
    if (write === 'deleted') {
      steps.push(...remove(row).map((statement) => ({ statement, owner: key })))
      continue
    }
    const { value, isCounted, raised: raise, definition } = write
    const noted = { at, raise, first }
    if (isCounted && row.definition.slots === 1) counted.push({ row, from, to: value, raise })
    else if (isCounted && slot === undefined)
      steps.push({ statement: setSlots(row, value, noted), owner: key })
    else if (isCounted && slot !== undefined)
      steps.push({ statement: addToSlot(row, slot, value - from, noted), owner: key })
    if (definition)
      steps.push(...redefine(row, definition, noted).map((statement) => ({ statement, owner: key })))
  }
  for (const { ids, operation, raise, owner } of alike(counted, onePerStatement)) {
    steps.push({ statement: change(ids, operation, { at, raise, first }), owner })
  }
  steps.push(...groupWriteSteps(groups, groupWrites, { at, first }, form))
  steps.push(...additionSteps(counters, added, at, form))
  if (toStore.length > 0) steps.push({ statement: storeResults(toStore) })
  steps.push(...toRelease.map((claim) => ({ statement: releaseKey(claim), owner: claim.key })))
  return textOf(steps)
}

function additionSteps(
  counters: readonly CounterRun<CountingRow>[],
  added: readonly bigint[],
  at: Date,
  { onePerStatement }: FlushForm,
): Step[] {
  const additions = counters
    .map((run, index): Addition => ({ run, added: added[index] ?? 0n }))
    .filter(({ run, added }) => added !== 0n && run.row.definition.periods.length > 0)
    // In the order of the primary key, which is also that of the pages.
    .sort((a, b) => a.run.row.id - b.run.row.id)
  const framesOf = openFrames(at)
  const groups = new Map<unknown, Addition[]>()
  for (const addition of additions) {
    const { run } = addition
    const alike = onePerStatement ? run : guardOf(run)
    const others = groups.get(alike)
    if (others) others.push(addition)
    else groups.set(alike, [addition])
  }
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    if (!first) return []
    const owner = group.length === 1 ? first.run.row.key : undefined
    return [{ statement: addInPeriods(group, framesOf, guardOf(first.run)), owner }]
  })
}

interface Written {
  row: CountingRow
  from: number
  to: number
  raise: number
}

interface Alike {
  ids: number[]
  operation: ValueOperation
  raise: number
  owner: string | undefined
}

/** Groups locked rows that one statement can write: all with the same new value or the same delta. */
function alike(rows: readonly Written[], onePerStatement: boolean): Alike[] {
  const isSame = rows.every(({ to }) => to === rows[0]?.to)
  const groups = new Map<string, Alike>()
  for (const { row, from, to, raise } of rows) {
    const delta = to - from
    const isSet = isSame || !Number.isSafeInteger(delta)
    const text = onePerStatement ? row.key : `${isSet ? `= ${to}` : `+ ${delta}`} ${raise}`
    const group = groups.get(text)
    if (group) {
      group.ids.push(row.id)
      group.owner = undefined
    } else {
      const operation: ValueOperation = isSet ? { kind: 'set', to } : { kind: 'add', delta }
      groups.set(text, { ids: [row.id], operation, raise, owner: row.key })
    }
  }
  return [...groups.values()]
}
