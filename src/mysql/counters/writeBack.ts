import type { CounterWrite, Writes } from '../../core/groupCommit/writer.ts'
import { type Form, ownerOf, type Statement, together } from '../flush/statements.ts'
import { groupBy } from '../groupBy.ts'
import { integer } from '../literals.ts'
import { redefine, remove } from './define.ts'
import { addToHistory } from './historyRows.ts'
import { writingColumns } from './periods.ts'
import type { CounterRecord, CounterRecordWork } from './record.ts'
import { addToSlot, setSlots, slotOf } from './slots.ts'
import { change } from './update.ts'

type Change = Exclude<CounterWrite, 'deleted'>
/** A counter that changes. `periods`: assignments of its columns, each followed by a comma. */
type ChangedCounter = { work: CounterRecordWork; row: CounterRecord; write: Change; periods: string }

/** The statements that write counters on the locked path. `first`: initial revision, if known. */
export function writeCounters(
  counters: Writes['counters'],
  first: number | undefined,
  form: Form,
): Statement[] {
  const changed: ChangedCounter[] = []
  const statements: Statement[] = []
  for (const { work, write } of counters) {
    // All rows come from this store.
    const row = work.row as CounterRecord
    const add = (texts: string[]) => statements.push(...texts.map((text) => ({ text, owner: row.key })))
    if (write === 'deleted') {
      add(remove(row))
      continue
    }
    const counter = { work: { ...work, row }, row, write, periods: writingColumns(write.columns) }
    if (write.isCounted && row.definition.slots > 1) add([...writeSlots(counter, first, form)])
    else if (write.isCounted) changed.push(counter)
    if (write.definition) add(redefine(row, write.definition, { at: form.at, raise: write.raised, first }))
  }
  return [...statements, ...writeValues(changed, first, form)]
}

function writeSlots({ work, row, write, periods }: ChangedCounter, first: number | undefined, { at }: Form) {
  const { previousValue, value, raised: raise } = write
  const slot = slotOf(work)
  if (slot === undefined) return setSlots(row, value, periods, { at, raise, first })
  return [addToSlot(row, slot, value - previousValue, periods, { at, raise, first })]
}

/** Changes locked rows, with one statement for all that are changed alike. */
function writeValues(changed: readonly ChangedCounter[], first: number | undefined, form: Form): Statement[] {
  const isSame = changed.every(({ write }) => write.value === changed[0]?.write.value)
  const assignments = ({ write: { previousValue, value }, periods }: ChangedCounter) =>
    isSame || !Number.isSafeInteger(value - previousValue)
      ? `${periods}value = ${integer(value)}`
      : `${periods}value = value + ${integer(value - previousValue)}`
  const groups = groupBy(changed, (counter) =>
    form.onePerStatement ? counter.row.key : `${counter.write.raised} ${assignments(counter)}`,
  )
  return [...groups.values()].map((group) => {
    const [counter] = group
    const noted = { at: form.at, raise: counter.write.raised, first }
    return { text: change(group, assignments(counter), noted), owner: ownerOf(group) }
  })
}

/** The statements that add to the history of counters. */
export function writeHistory(counters: Writes['counters'], form: Form): Statement[] {
  const moved = counters.flatMap(({ work, write }) =>
    // All rows come from this store.
    write === 'deleted' || write.history.length === 0
      ? []
      : [{ row: work.row as CounterRecord, history: write.history }],
  )
  return together(moved, form).map((group) => ({
    text: addToHistory(group.flatMap(({ row, history }) => history.map((each) => ({ id: row.id, ...each })))),
    owner: ownerOf(group),
  }))
}
