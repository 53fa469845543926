import type { ValueOperation } from '../core/dealing.ts'
import type { Decision, Flush } from '../core/lane.ts'
import { type CountingRow, type CountingTable, change, redefine, remove } from './counting.ts'
import { type FlushForm, type FlushText, type Step, textOf } from './flushing.ts'
import { giveBack, remember } from './keys.ts'

/** Writes what was decided: what careful rows are to be, and what is remembered of claims. */
export function writeDecided(
  { runs, at }: Flush<CountingRow>,
  found: readonly (number | undefined)[],
  { writes, remember: done, forget }: Decision,
  { isSingly }: FlushForm,
): FlushText {
  const counted: Written[] = []
  const steps: Step[] = []
  for (const [index, run] of runs.entries()) {
    const write = writes[index]
    if (write === undefined) continue
    const { row } = run
    const statements = write === 'deleted' ? remove(row) : write.bounds ? redefine(row, write.bounds, at) : []
    steps.push(...statements.map((statement) => ({ statement, owner: row.key })))
    if (write !== 'deleted' && write.isCounted)
      counted.push({ row, from: found[index] ?? 0, to: write.value })
  }
  for (const { table, ids, operation, owner } of alike(counted, isSingly)) {
    steps.push({ statement: change(table, ids, operation, at), owner })
  }
  if (done.length > 0) steps.push({ statement: remember(done) })
  steps.push(...forget.map((claim) => ({ statement: giveBack(claim), owner: claim.key })))
  return textOf(steps)
}

interface Written {
  row: CountingRow
  from: number
  to: number
}

interface Alike {
  table: CountingTable
  ids: number[]
  operation: ValueOperation
  owner: string | undefined
}

/** Rows that are locked, put together where one statement writes them: they rise by as much, or become the same. */
function alike(rows: readonly Written[], isSingly: boolean): Alike[] {
  const isSame = rows.every(({ to }) => to === rows[0]?.to)
  const groups = new Map<string, Alike>()
  for (const { row, from, to } of rows) {
    const delta = to - from
    const isSet = isSame || !Number.isSafeInteger(delta)
    const text = isSingly ? row.key : `${row.table} ${isSet ? `= ${to}` : `+ ${delta}`}`
    const group = groups.get(text)
    if (group) {
      group.ids.push(row.id)
      group.owner = undefined
    } else {
      const operation: ValueOperation = isSet ? { kind: 'set', to } : { kind: 'add', delta }
      groups.set(text, { table: row.table, ids: [row.id], operation, owner: row.key })
    }
  }
  return [...groups.values()]
}
