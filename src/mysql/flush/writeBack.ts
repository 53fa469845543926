import type { Decision } from '../../core/groupCommit/writer.ts'
import { redefine, remove } from '../counters/define.ts'
import { addToHistory } from '../counters/historyRows.ts'
import { writingColumns } from '../counters/periods.ts'
import type { CounterRecord } from '../counters/record.ts'
import { addToSlot, setSlots } from '../counters/slots.ts'
import { change, type Marks } from '../counters/update.ts'
import { groupBy } from '../groupBy.ts'
import { integer } from '../literals.ts'
import { writeSequenceGroups } from '../sequences/writeBack.ts'
import { releaseKey, storeResults } from './idempotencyKeys.ts'
import { counterMember } from './members.ts'
import { type FlushForm, ownerOf, type Step, together } from './steps.ts'

type WriteOptions = Omit<Marks, 'raise'>

/** The statements that write a decision: counters on the locked path, sequence groups, history and keys. */
export function writeBack(decision: Decision, options: WriteOptions, form: FlushForm): Step[] {
  const { counters, sequenceGroups, toStore, toRelease } = decision
  return [
    ...counterSteps(counters, options, form),
    ...writeSequenceGroups(sequenceGroups, options, form),
    ...historySteps(counters, form),
    ...(toStore.length > 0 ? [{ statement: storeResults(toStore) }] : []),
    ...toRelease.map((claim) => ({ statement: releaseKey(claim), owner: claim.key })),
  ]
}

function counterSteps(counters: Decision['counters'], options: WriteOptions, form: FlushForm): Step[] {
  const counted: Counted[] = []
  const steps: Step[] = []
  for (const { run, write } of counters) {
    const { row } = counterMember(run)
    const add = (...statements: string[]) =>
      steps.push(...statements.map((statement) => ({ statement, owner: row.key })))
    if (write === 'deleted') {
      add(...remove(row))
      continue
    }
    const { value, isCounted, raised: raise, definition, columns } = write
    const noted = { at: options.at, raise, first: options.first }
    const periods = writingColumns(columns)
    if (isCounted && row.definition.slots === 1)
      counted.push({ row, from: run.before, to: value, raise, periods })
    else if (isCounted && run.slot === undefined) add(...setSlots(row, value, periods, noted))
    else if (isCounted && run.slot !== undefined)
      add(addToSlot(row, run.slot, value - run.before, periods, noted))
    if (definition) add(...redefine(row, definition, noted))
  }
  return [...steps, ...changeSteps(counted, options, form)]
}

/** The additions to the history. */
function historySteps(counters: Decision['counters'], form: FlushForm): Step[] {
  const moved = counters.flatMap(({ run, write }) =>
    write === 'deleted' || write.history.length === 0
      ? []
      : [{ row: counterMember(run).row, history: write.history }],
  )
  return together(moved, form).map((some) => ({
    statement: addToHistory(
      some.flatMap(({ row, history }) => history.map((one) => ({ id: row.id, ...one }))),
    ),
    owner: ownerOf(some),
  }))
}

/** A counter whose value changes. `periods`: assignments of its columns, each followed by a comma. */
type Counted = { row: CounterRecord; periods: string } & Record<'from' | 'to' | 'raise', number>

/** Changes locked rows, with one statement for all that are changed alike. */
function changeSteps(rows: readonly Counted[], { at, first }: WriteOptions, form: FlushForm): Step[] {
  const isSame = rows.every(({ to }) => to === rows[0]?.to)
  const assignments = ({ from, to, periods }: Counted) =>
    isSame || !Number.isSafeInteger(to - from)
      ? `${periods}value = ${integer(to)}`
      : `${periods}value = value + ${integer(to - from)}`
  const groups = groupBy(rows, (one) =>
    form.onePerStatement ? one.row.key : `${one.raise} ${assignments(one)}`,
  )
  return [...groups.values()].map((group) => {
    const [one] = group
    const ids = group.map(({ row }) => row.id)
    const statement = change(ids, assignments(one), { at, raise: one.raise, first })
    return { statement, owner: ownerOf(group) }
  })
}
