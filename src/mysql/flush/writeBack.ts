import type { ValueOperation } from '../../core/counters/apply.ts'
import type { CounterRun } from '../../core/groupCommit/counterRun.ts'
import type { Decision } from '../../core/groupCommit/writer.ts'
import { redefine, remove } from '../counters/define.ts'
import { addInPeriods, guardOf, openFrames } from '../counters/periods.ts'
import { addToSlot, setSlots } from '../counters/slots.ts'
import { type CounterRecord, change, type Marks } from '../counters/update.ts'
import { groupBy } from '../groupBy.ts'
import { writeSequenceGroups } from '../sequences/writeBack.ts'
import { releaseKey, storeResults } from './idempotencyKeys.ts'
import { counterMember } from './members.ts'
import { type FlushForm, ownerOf, type Step } from './steps.ts'

type WriteOptions = Omit<Marks, 'raise'>

/** The statements that write a decision: counters on the locked path, sequence groups, period totals and keys. */
export function writeBack(decision: Decision, options: WriteOptions, form: FlushForm): Step[] {
  const { counters, sequenceGroups, additions, toStore, toRelease } = decision
  return [
    ...counterSteps(counters, options, form),
    ...writeSequenceGroups(sequenceGroups, options, form),
    ...additionSteps(additions, options.at, form),
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
    const { value, isCounted, raised: raise, definition } = write
    const noted = { at: options.at, raise, first: options.first }
    if (isCounted && row.definition.slots === 1) counted.push({ row, from: run.before, to: value, raise })
    else if (isCounted && run.slot === undefined) add(setSlots(row, value, noted))
    else if (isCounted && run.slot !== undefined) add(addToSlot(row, run.slot, value - run.before, noted))
    if (definition) add(...redefine(row, definition, noted))
  }
  return [...steps, ...changeSteps(counted, options, form)]
}

function additionSteps(additions: readonly CounterRun[], at: Date, { onePerStatement }: FlushForm): Step[] {
  const members = additions
    .filter(({ row }) => row.definition.periods.length > 0)
    .map(counterMember)
    // In the order of the primary key, which is also that of the pages.
    .sort((a, b) => a.row.id - b.row.id)
  const framesOf = openFrames(at)
  const groups = groupBy(members, ({ run }) => (onePerStatement ? run : guardOf(run)))
  return [...groups.values()].map((group) => ({
    statement: addInPeriods(group, framesOf),
    owner: ownerOf(group),
  }))
}

/** A counter whose value changes. */
type Counted = { row: CounterRecord } & Record<'from' | 'to' | 'raise', number>

/** Changes locked rows, with one statement for all that get the same new value or the same delta. */
function changeSteps(rows: readonly Counted[], { at, first }: WriteOptions, form: FlushForm): Step[] {
  const isSame = rows.every(({ to }) => to === rows[0]?.to)
  const operationOf = ({ from, to }: Counted): ValueOperation =>
    isSame || !Number.isSafeInteger(to - from) ? { kind: 'set', to } : { kind: 'add', delta: to - from }
  const groups = groupBy(rows, (one) =>
    form.onePerStatement ? one.row.key : JSON.stringify([operationOf(one), one.raise]),
  )
  return [...groups.values()].map((group) => {
    const [one] = group
    const ids = group.map(({ row }) => row.id)
    const statement = change(ids, operationOf(one), { at, raise: one.raise, first })
    return { statement, owner: ownerOf(group) }
  })
}
