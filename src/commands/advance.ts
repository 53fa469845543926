import { readDatabaseConfig } from '../config.ts'
import { keyText } from '../core/counters/state.ts'
import { SILENT } from '../core/notices.ts'
import { openNth } from '../core/nth.ts'
import type { Target } from '../mysql/connections/target.ts'
import { openStore } from '../repository/nth.ts'
import type { CounterEntry, Entry, EntryType, SequenceGroupEntry } from '../rules/entries.ts'
import { NthError } from '../rules/errors.ts'
import { claimOf } from '../rules/idempotency.ts'
import { withSnapshot } from './files.ts'
import { described } from './transfer/importAll.ts'
import { withNotice } from './transfer/progress.ts'

/** Changes in flight: a flush takes about as many. */
const AT_ONCE = 500
const TIME_LIMIT_MS = 60_000
/** Entries, a multiple of the above. Rows stay in memory, and none is needed again. */
const REOPENED_AFTER = 50_000

const ADVANCED: ReadonlySet<EntryType> = new Set(['counter', 'sequence', 'sequenceGroup'])

/**
 * Moves every sequence group and exact counter of a database on, and prints those that it can't move.
 *
 * @param by how many numbers are skipped, 1 to 1 000 000
 * @param backupAt instant of the backup; a repeat for the same one moves nothing twice, while idempotency keys are kept
 */
export async function advance(target: Target, by: number, backupAt?: Date): Promise<void> {
  let { nth, close } = openOperations(target)
  const gapless = new Set<string>()
  const moved = { counters: 0, groups: 0 }

  const movedOn = () => `Moved on by ${by}: ${moved.counters} counters, ${moved.groups} sequence groups`
  const advice = backupAt
    ? 'Repeat the command with --continue: while idempotency keys are kept, it moves nothing twice.'
    : 'A repeat moves them once more.'
  const standing = () => `${movedOn()}, and perhaps up to ${AT_ONCE} more of both. ${advice}`

  const claimFor = (namespace: string, ...names: string[]) =>
    backupAt && claimOf(namespace, JSON.stringify([backupAt, by, ...names]), [by], 'nth restore')

  async function advanceCounter(entry: CounterEntry): Promise<void> {
    const { namespace, name, value, definition } = entry
    // Its callers get no number of their own.
    if (definition && definition.slots > 1) return
    // It counts down, such as a stock: more would be sold than there is.
    if (definition?.bounds?.minValue != null)
      return say(`Not moved on: ${described(entry)} has a minimum; its value is ${value}.`)
    await nth.counters.incrementBy({ namespace, name }, by, { claim: claimFor(namespace, name) })
    moved.counters++
  }

  async function advanceGroup(entry: SequenceGroupEntry): Promise<void> {
    const { namespace, sequence, group } = entry
    if (gapless.has(keyText({ namespace, name: sequence })))
      return say(`Not moved on: ${described(entry)} is gapless; ${lastNumberOf(entry)}.`)
    await nth.sequences.next({ namespace, sequence, group }, by, {
      claim: claimFor(namespace, sequence, group),
    })
    moved.groups++
  }

  async function advanceOne(entry: Entry): Promise<void> {
    try {
      if (entry.type === 'counter') await advanceCounter(entry)
      if (entry.type === 'sequenceGroup') await advanceGroup(entry)
    } catch (error) {
      if (!(error instanceof NthError) || error.code === 'UNAVAILABLE' || error.code === 'OUTCOME_UNKNOWN')
        throw error
      say(`Not moved on: ${described(entry)}: ${error.message}`)
    }
  }

  async function advanceAll(): Promise<void> {
    await withSnapshot(target, async (snapshot, shown) => {
      let entries = 0
      let batch: Entry[] = []
      const apply = async () => {
        await Promise.all(batch.map(advanceOne))
        entries += batch.length
        shown(entries)
        batch = []
        if (entries % REOPENED_AFTER > 0) return
        await close()
        ;({ nth, close } = openOperations(target))
      }
      for await (const entry of snapshot.entries(ADVANCED)) {
        if (entry.type === 'sequence' && entry.definition.gapless) gapless.add(keyText(entry))
        batch.push(entry)
        if (batch.length === AT_ONCE) await apply()
      }
      await apply()
    })
  }

  try {
    await withNotice(standing, advanceAll)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${standing()}`, { cause: error })
  } finally {
    await close()
  }
  console.log(`${movedOn()}.`)
}

function openOperations(target: Target) {
  const { keyTtlMs } = readDatabaseConfig()
  const options = { maxPending: 2 * AT_ONCE, keyTtlMs, notices: { ...SILENT, fault: console.error } }
  const store = openStore([target], {
    ...options,
    timeLimitMs: TIME_LIMIT_MS,
    runsJobs: false,
    // Where commits were lost, this is what makes up for it.
    acceptsLostCommits: true,
  })
  const nth = openNth(store, { ...options, timeoutMs: TIME_LIMIT_MS, random: Math.random })
  return {
    nth,
    async close(): Promise<void> {
      await nth.close()
      await store.close()
    },
  }
}

function lastNumberOf({ latest }: SequenceGroupEntry): string {
  if (latest?.lastValue == null) return 'it has no number yet'
  return `its last number is ${latest.lastValue}${latest.period === 0 ? '' : `, in period ${latest.period}`}`
}

function say(line: string): void {
  console.log(line)
}
