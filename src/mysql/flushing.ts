import type { Operation } from '../core/dealing.ts'
import type { Run } from '../core/runs.ts'
import { addReturningOld, type CountingRow, type CountingTable, change, lock, tables } from './counting.ts'
import type { Answer } from './session.ts'

/** Statements of a flush, and how to read their answers. */
export interface FlushText {
  statements: string[]
  /** The run that the statement of an index belongs to; undefined where that is several, or none. */
  runAt(index: number): number | undefined
  /** Notes what each run's row held before, by the runs' indexes. */
  read(answers: readonly Answer[], before: Before[]): void
}

/** The value before; `undefined`: there is no such row; `unsure`: the answer doesn't tell. */
export type Before = number | undefined | 'unsure'

export interface FlushForm {
  /** Whether each row has statements of its own, so that a failure has a culprit. */
  isSingly: boolean
  /** Tables whose triggers keep the value out of the answer. */
  triggered: ReadonlySet<CountingTable>
}

/** Up to so many rows of a table, a statement for each is quicker than locking all and then changing all. */
const NARROW = 8

/** Stands behind a select, so that it is known whether that one failed or what follows. */
const MARK = 'do 0'

interface Member {
  run: Run<CountingRow>
  index: number
}

interface Step {
  statement: string
  /** The only run that the statement is for. */
  owner?: number | undefined
  read?: (answer: Answer, before: Before[]) => void
}

/** Writes what a flush changes. Every process touches rows in this one order, so that flushes don't deadlock. */
export function writeFlush(runs: readonly Run<CountingRow>[], at: Date, form: FlushForm): FlushText {
  return textOf(byTable(runs).flatMap(([table, members]) => stepsFor(table, members, at, form)))
}

/**
 * Reads again, under their locks, the rows whose answers didn't tell: they hold what was added already.
 */
export function readAgain(runs: readonly Run<CountingRow>[], before: readonly Before[]): FlushText {
  const unsure = byTable(runs).flatMap(([table, members]) =>
    members
      .filter(({ index }) => before[index] === 'unsure')
      .map((member): Step => {
        const { merged } = member.run
        const added = merged.kind === 'add' ? merged.delta : 0
        return lockStep(table, [member], (value) => value - added)
      }),
  )
  return textOf(unsure)
}

/** Writes what careful runs were decided to leave behind. */
export function writeDecided(
  runs: readonly Run<CountingRow>[],
  writes: readonly (number | undefined)[],
  at: Date,
): string[] {
  return runs.flatMap(({ row: { table, id } }, index) => {
    const to = writes[index]
    return to === undefined ? [] : [change(table, [id], { kind: 'set', to }, at)]
  })
}

function textOf(steps: readonly Step[]): FlushText {
  return {
    statements: steps.map(({ statement }) => statement),
    runAt: (index) => steps[index]?.owner,
    read(answers, before) {
      for (const [index, answer] of answers.entries()) steps[index]?.read?.(answer, before)
    },
  }
}

function byTable(runs: readonly Run<CountingRow>[]): [CountingTable, Member[]][] {
  const members = runs.map((run, index) => ({ run, index })).sort((a, b) => a.run.row.id - b.run.row.id)
  // The keys of a constant object.
  return (Object.keys(tables) as CountingTable[]).map((table) => [
    table,
    members.filter(({ run }) => run.row.table === table),
  ])
}

function stepsFor(
  table: CountingTable,
  members: Member[],
  at: Date,
  { isSingly, triggered }: FlushForm,
): Step[] {
  if (members.length > NARROW && !isSingly) return lockAndChange(table, members, at)
  return members.flatMap((member) => {
    const { state, merged, row } = member.run
    const isReturned = state === 'merged' && merged.kind === 'add' && !triggered.has(table)
    return isReturned
      ? [returningStep(member, addReturningOld(row, merged.delta, at))]
      : lockAndChange(table, [member], at)
  })
}

function returningStep({ index }: Member, statement: string): Step {
  return {
    statement,
    owner: index,
    read(answer, before) {
      if (Array.isArray(answer)) return
      const value = answer.insertId === 0 ? 'unsure' : Number(answer.insertId)
      before[index] = answer.affectedRows === 0 ? undefined : value
    },
  }
}

/** Locks rows, and changes those of merged runs, with one statement for all that have the same operation. */
function lockAndChange(table: CountingTable, members: Member[], at: Date): Step[] {
  const alike = new Map<string, { operation: Operation; ids: number[] }>()
  for (const { run } of members) {
    if (run.state !== 'merged') continue
    const text = run.merged.kind === 'set' ? `= ${run.merged.to}` : `+ ${run.merged.delta}`
    const others = alike.get(text)
    if (others) others.ids.push(run.row.id)
    else alike.set(text, { operation: run.merged, ids: [run.row.id] })
  }
  const owner = ownerOf(members)
  return [
    lockStep(table, members),
    { statement: MARK },
    ...[...alike.values()].map(({ operation, ids }) => ({
      statement: change(table, ids, operation, at),
      owner,
    })),
  ]
}

function lockStep(table: CountingTable, members: Member[], toBefore = (value: number) => value): Step {
  return {
    statement: lock(
      table,
      members.map(({ run }) => run.row.id),
    ),
    owner: ownerOf(members),
    read(answer, before) {
      if (!Array.isArray(answer)) return
      const found = new Map(answer.map((row) => [row.id, row]))
      for (const { run, index } of members) {
        const row = found.get(run.row.id)
        before[index] = row?.version === run.row.version ? toBefore(Number(row?.value)) : undefined
      }
    },
  }
}

function ownerOf(members: Member[]): number | undefined {
  return members.length === 1 ? members[0]?.index : undefined
}
