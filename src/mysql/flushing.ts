import type { RowDataPacket } from 'mysql2'
import type { Run } from '../core/batch.ts'
import type { ValueOperation } from '../core/dealing.ts'
import type { Claim, Remembered } from '../core/idempotency.ts'
import type { Flush } from '../core/lane.ts'
import { addReturningOld, type CountingRow, type CountingTable, change, lock, tables } from './counting.ts'
import { lockDefinition } from './defining.ts'
import { claim, inOrder, readDone, rememberedIn } from './keys.ts'
import { byFrames, openFrames, readPeriods, sumPeriods } from './periods.ts'
import { type Answer, firstRow } from './session.ts'
import { addToSlot, lockSlots, sumSlots } from './slots.ts'

/** Statements of a flush, and how to read their answers. */
export interface FlushText {
  statements: string[]
  /** The key of the only row or claim that the statement of an index is for. */
  ownerAt(index: number): string | undefined
  /** Notes what the flush finds. */
  read(answers: readonly Answer[], finds: Finds): void
}

/** What a flush finds. */
export interface Finds {
  /** What each run's row held before; `undefined`: there is no such row; `unsure`: the answer doesn't tell. */
  before: (number | undefined | 'unsure')[]
  /** What was added before in the running periods of those runs where it is asked, in the order of their definitions. */
  tallies: (number[] | undefined)[]
  remembered: Remembered[]
  /** How many keys were claimed, as nobody had used them. */
  claimed: number
}

export interface FlushForm {
  /** Whether each row and claim has statements of its own, so that a failure has a culprit. */
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

export interface Step {
  statement: string
  /** The key of the only row or claim that the statement is for. */
  owner?: string | undefined
  read?: (answer: Answer, finds: Finds) => void
}

/**
 * Writes what a flush changes or locks. Every process touches keys and rows in this one order, so that flushes
 * don't deadlock.
 */
export function writeFlush({ runs, claims, at }: Flush<CountingRow>, form: FlushForm): FlushText {
  const members = runs.map((run, index) => ({ run, index })).sort((a, b) => a.run.row.id - b.run.row.id)
  const spread = members.filter(({ run }) => hasSlots(run))
  const counting = byTable(members).flatMap(([table, some]) => stepsFor(table, some, at, form))
  const defining = runs.filter(({ isForDefinition }) => isForDefinition).flatMap(definitionSteps)
  return textOf([
    ...claimSteps(claims, at, form),
    ...counting,
    ...spread.flatMap((member) => slotSteps(member, at)),
    ...tallySteps(members, at, form),
    ...defining,
  ])
}

/**
 * Reads again, under their locks, the rows whose answers didn't tell: they hold what was added already.
 */
export function readAgain(runs: readonly Run<CountingRow>[], { before }: Finds): FlushText {
  const all = runs.map((run, index) => ({ run, index }))
  const unsure = byTable(all).flatMap(([table, members]) =>
    members
      .filter(({ index }) => before[index] === 'unsure')
      .map((member): Step => {
        const { merged } = member.run
        const added = merged?.kind === 'add' ? merged.delta : 0
        return lockStep(table, [member], (value) => value - added)
      }),
  )
  return textOf(unsure)
}

export function textOf(steps: readonly Step[]): FlushText {
  return {
    statements: steps.map(({ statement }) => statement),
    ownerAt: (index) => steps[index]?.owner,
    read(answers, finds) {
      for (const [index, answer] of answers.entries()) steps[index]?.read?.(answer, finds)
    },
  }
}

function claimSteps(claims: readonly Claim[], at: Date, { isSingly }: FlushForm): Step[] {
  if (claims.length === 0) return []
  const groups = isSingly ? inOrder(claims).map((one) => [one]) : [claims]
  return [
    ...groups.map(
      (group): Step => ({
        statement: claim(group, at),
        owner: ownerOf(group.map(({ key }) => key)),
        read(answer, finds) {
          if (!Array.isArray(answer)) finds.claimed += answer.affectedRows
        },
      }),
    ),
    {
      statement: readDone(claims),
      read(answer, { remembered }) {
        if (Array.isArray(answer)) remembered.push(...rememberedIn(answer))
      },
    },
    { statement: MARK },
  ]
}

/** All that is to be waited for is waited for before COMMIT is sent: an error after it would leave a doubt. */
function definitionSteps({ row }: Run<CountingRow>): Step[] {
  return lockDefinition(row).flatMap((statement) => [{ statement, owner: row.key }, { statement: MARK }])
}

/** Those whose value is one row, by their tables. */
function byTable(members: readonly Member[]): [CountingTable, Member[]][] {
  // The keys of a constant object.
  return (Object.keys(tables) as CountingTable[]).map((table) => [
    table,
    members.filter(({ run }) => run.row.table === table && !hasSlots(run)),
  ])
}

function hasSlots({ row }: Run<CountingRow>): boolean {
  return row.definition.slots > 1
}

function stepsFor(
  table: CountingTable,
  members: Member[],
  at: Date,
  { isSingly, triggered }: FlushForm,
): Step[] {
  if (members.length > NARROW && !isSingly) return lockAndChange(table, members, at)
  return members.flatMap((member) => {
    const { merged, row } = member.run
    const isReturned = merged?.kind === 'add' && !triggered.has(table)
    return isReturned
      ? [returningStep(member, addReturningOld(row, merged.delta, at))]
      : lockAndChange(table, [member], at)
  })
}

function returningStep({ run, index }: Member, statement: string): Step {
  return {
    statement,
    owner: run.row.key,
    read(answer, { before }) {
      if (Array.isArray(answer)) return
      const value = answer.insertId === 0 ? 'unsure' : Number(answer.insertId)
      before[index] = answer.affectedRows === 0 ? undefined : value
    },
  }
}

/** Locks rows, and changes those of merged runs, with one statement for all that have the same operation. */
function lockAndChange(table: CountingTable, members: Member[], at: Date): Step[] {
  const groups = new Map<string, { operation: ValueOperation; ids: number[] }>()
  for (const { run } of members) {
    const { merged, row } = run
    if (!merged) continue
    const text = merged.kind === 'set' ? `= ${merged.to}` : `+ ${merged.delta}`
    const others = groups.get(text)
    if (others) others.ids.push(row.id)
    else groups.set(text, { operation: merged, ids: [row.id] })
  }
  const owner = ownerOf(keysOf(members))
  return [
    lockStep(table, members),
    { statement: MARK },
    ...[...groups.values()].map(({ operation, ids }) => ({
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
    owner: ownerOf(keysOf(members)),
    read(answer, { before }) {
      if (!Array.isArray(answer)) return
      const found = new Map(answer.map((row) => [row.id, row]))
      for (const { run, index } of members) {
        const row = found.get(run.row.id)
        before[index] = row?.version === run.row.version ? toBefore(Number(row?.value)) : undefined
      }
    },
  }
}

/** Adds to a slot, or locks it, or all of them; and reads their sum. */
function slotSteps({ run, index }: Member, at: Date): Step[] {
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

/** Reads what was added so far in running periods, where somebody asks. */
function tallySteps(members: readonly Member[], at: Date, { isSingly }: FlushForm): Step[] {
  const told = members.filter(({ run }) => run.isTold && run.row.definition.periods.length > 0)
  if (told.length === 0) return []
  const framesOf = openFrames(at)
  const indexOf = new Map(told.map(({ run, index }) => [run, index]))
  const runs = told.map(({ run }) => run)
  const groups = [
    ...runs.filter((run) => isSingly || hasSlots(run)).map((run) => [run]),
    ...byFrames(
      runs.filter((run) => !isSingly && !hasSlots(run)),
      framesOf,
    ).map(([, group]) => group),
  ]
  return groups.flatMap((group) => {
    const [first] = group
    if (!first) return []
    const frames = framesOf(first.row)
    const rows = group.map(({ row }) => row)
    const statement = hasSlots(first)
      ? sumPeriods(first.row, frames, first.slot === undefined)
      : readPeriods(rows, frames)
    return [{ statement, owner: ownerOf(rows.map(({ key }) => key)), read }, { statement: MARK }]

    function read(answer: Answer, { tallies }: Finds): void {
      if (!Array.isArray(answer)) return
      const byId = new Map(group.map((run) => [run.row.id, [] as RowDataPacket[]]))
      for (const row of answer) byId.get(row.id)?.push(row)
      for (const run of group) {
        const own = byId.get(run.row.id) ?? []
        tallies[indexOf.get(run) ?? 0] = frames.map((frame) =>
          Number(own.find(({ period }) => period === frame.period)?.value ?? 0),
        )
      }
    }
  })
}

/** A slot may hold what is beyond the safe range, where their sum isn't. */
function sumOf(rows: readonly RowDataPacket[]): number {
  return Number(rows.reduce((sum, { value }) => sum + BigInt(value), 0n))
}

function keysOf(members: readonly Member[]): string[] {
  return members.map(({ run }) => run.row.key)
}

/** The key, if there is one only. */
function ownerOf(keys: readonly string[]): string | undefined {
  return keys.length === 1 ? keys[0] : undefined
}
