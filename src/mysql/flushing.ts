import type { Run } from '../core/batch.ts'
import type { ValueOperation } from '../core/dealing.ts'
import type { Claim } from '../core/idempotency.ts'
import type { Flush } from '../core/lane.ts'
import { addReturningOld, type CountingRow, type CountingTable, change, lock, tables } from './counting.ts'
import { lockDefinition } from './defining.ts'
import { claim, inOrder, readDone, rememberedIn } from './keys.ts'
import { slotSteps } from './slotting.ts'
import {
  type Finds,
  type FlushForm,
  type FlushText,
  hasSlots,
  MARK,
  type Member,
  ownerOf,
  type Step,
  textOf,
} from './steps.ts'
import { tallySteps } from './tallying.ts'

/** Up to so many rows of a table, a statement for each is quicker than locking all and then changing all. */
const NARROW = 8

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

function keysOf(members: readonly Member[]): string[] {
  return members.map(({ run }) => run.row.key)
}
