import type { ValueOperation } from '../../core/counters/apply.ts'
import type { CounterRun } from '../../core/groupCommit/batch.ts'
import type { FlushBody } from '../../core/groupCommit/writer.ts'
import type { Claim } from '../../core/idempotency.ts'
import { firstRow } from '../connections/session.ts'
import { lockDefinition } from '../counters/define.ts'
import { periodTotalSteps } from '../counters/periodTotals.ts'
import { slotSteps } from '../counters/slotSteps.ts'
import { addReturningOld, type CountingRow, change, lock, readRevisions } from '../counters/update.ts'
import { READ_FIRST_REVISION } from '../revisions.ts'
import { groupSteps, mayRise } from '../sequences/lockGroups.ts'
import { claim, earlierIn, inOrder, readResults } from './idempotencyKeys.ts'
import {
  type Finds,
  type FlushForm,
  type FlushText,
  hasSlots,
  MARK,
  type Member,
  NARROW,
  ownerOf,
  type Step,
  textOf,
} from './steps.ts'
import type { StoredRow } from './storedRow.ts'

/**
 * The statements of a flush's first round trip. Every process touches keys and rows in this one order, so that flushes
 * don't deadlock.
 */
export function writeFlush(
  { counters, groups, claims, at }: FlushBody<StoredRow>,
  form: FlushForm,
): FlushText {
  const members = counters.map((run, index) => ({ run, index })).sort((a, b) => a.run.row.id - b.run.row.id)
  const spread = members.filter(({ run }) => hasSlots(run))
  const single = members.filter(({ run }) => !hasSlots(run))
  const defining = counters.filter(({ isForDefinition }) => isForDefinition).flatMap(definitionSteps)
  return textOf([
    ...claimSteps(claims, at, form),
    ...firstRevisionSteps({ counters, groups }, form),
    ...countingSteps(single, at, form),
    ...revisionSteps(single),
    ...spread.flatMap((member) => slotSteps(member, at)),
    ...groupSteps(groups, at, form),
    ...periodTotalSteps(members, at, form),
    ...defining,
  ])
}

/** Reads locked rows whose value the answer did not show. They already include the addition. */
export function readAgain(counters: readonly CounterRun<CountingRow>[], { before }: Finds): FlushText {
  const unsure = counters
    .map((run, index) => ({ run, index }))
    .filter(({ index }) => before[index] === 'unsure')
    .map((member): Step => {
      const { coalesced } = member.run
      const added = coalesced?.kind === 'add' ? coalesced.delta : 0
      return lockStep([member], (value) => value - added)
    })
  return textOf(unsure)
}

function claimSteps(claims: readonly Claim[], at: Date, { onePerStatement }: FlushForm): Step[] {
  if (claims.length === 0) return []
  const groups = onePerStatement ? inOrder(claims).map((one) => [one]) : [claims]
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
      statement: readResults(claims),
      read(answer, { earlier }) {
        if (Array.isArray(answer)) earlier.push(...earlierIn(answer))
      },
    },
    { statement: MARK },
  ]
}

/** Reads the initial revision of rows that only the second round trip writes, as results need it before. */
function firstRevisionSteps(
  { counters, groups }: Pick<FlushBody<StoredRow>, 'counters' | 'groups'>,
  form: FlushForm,
): Step[] {
  const isAsked =
    counters.some(({ withRevision, coalesced }) => withRevision && !coalesced) ||
    groups.some((run) => run.withRevision && !mayRise(run, form))
  if (!isAsked) return []
  return [
    {
      statement: READ_FIRST_REVISION,
      read(answer, finds) {
        finds.first = firstRow(answer)?.first
      },
    },
    { statement: MARK },
  ]
}

/** Reads the revisions of rows that are already changed, where wanted. */
function revisionSteps(members: readonly Member[]): Step[] {
  const asked = members.filter(({ run }) => run.withRevision && run.coalesced)
  if (asked.length === 0) return []
  return [
    {
      statement: readRevisions(asked.map(({ run }) => run.row.id)),
      owner: ownerOf(keysOf(asked)),
      read(answer, { revisions }) {
        if (!Array.isArray(answer)) return
        const found = new Map(answer.map((row) => [row.id, row]))
        for (const { run, index } of asked) {
          const row = found.get(run.row.id)
          revisions[index] = row && row.revision - run.raise
        }
      },
    },
    { statement: MARK },
  ]
}

/** All lock waits come before COMMIT is sent: after it, an error would leave the outcome unknown. */
function definitionSteps({ row }: CounterRun<CountingRow>): Step[] {
  return lockDefinition(row).flatMap((statement) => [{ statement, owner: row.key }, { statement: MARK }])
}

function countingSteps(members: Member[], at: Date, { onePerStatement, isTriggered }: FlushForm): Step[] {
  if (members.length > NARROW && !onePerStatement) return lockAndChange(members, at)
  return members.flatMap((member) => {
    const { coalesced, row, raise } = member.run
    const isReturned = coalesced?.kind === 'add' && !isTriggered
    return isReturned
      ? [returningStep(member, addReturningOld(row, coalesced.delta, { at, raise }))]
      : lockAndChange([member], at)
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

/** Locks rows, and changes those of coalesced runs, with one statement for all that have the same operation. */
function lockAndChange(members: Member[], at: Date): Step[] {
  const groups = new Map<string, { operation: ValueOperation; raise: number; ids: number[] }>()
  for (const { run } of members) {
    const { coalesced, row, raise } = run
    if (!coalesced) continue
    const text = `${coalesced.kind === 'set' ? `= ${coalesced.to}` : `+ ${coalesced.delta}`} ${raise}`
    const others = groups.get(text)
    if (others) others.ids.push(row.id)
    else groups.set(text, { operation: coalesced, raise, ids: [row.id] })
  }
  const owner = ownerOf(keysOf(members))
  return [
    lockStep(members),
    { statement: MARK },
    ...[...groups.values()].map(({ operation, raise, ids }) => ({
      statement: change(ids, operation, { at, raise }),
      owner,
    })),
  ]
}

function lockStep(members: Member[], toBefore = (value: number) => value): Step {
  return {
    statement: lock(members.map(({ run }) => run.row.id)),
    owner: ownerOf(keysOf(members)),
    read(answer, { before, revisions, first }) {
      if (!Array.isArray(answer)) return
      const found = new Map(answer.map((row) => [row.id, row]))
      for (const { run, index } of members) {
        const row = found.get(run.row.id)
        before[index] = row?.version === run.row.version ? toBefore(Number(row?.value)) : undefined
        if (!run.coalesced) revisions[index] = row?.revision ?? first
      }
    },
  }
}

function keysOf(members: readonly Member[]): string[] {
  return members.map(({ run }) => run.row.key)
}
