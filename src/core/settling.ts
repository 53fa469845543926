import { setTimeout as pause } from 'node:timers/promises'
import type { Applied, Call, Calls } from './calls.ts'
import { dealRun } from './dealing.ts'
import { NthError } from './errors.ts'
import type { Flush, Lane, Outcome, Row } from './lane.ts'
import { type Run, runOf } from './runs.ts'

/** Why a run failed that is to blame itself. */
export type Failure = Extract<Outcome, { kind: 'failed' }>

export interface SettlingOptions<R extends Row> {
  calls: Calls
  now: () => Date
  /** Has a call wait for its row anew. */
  place: (row: R, call: Call) => void
}

const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Makes the function that flushes runs until nothing of them is open. */
export function openSettling<R extends Row>({ calls, now, place }: SettlingOptions<R>) {
  return settle

  /**
   * Flushes runs until each of their calls is answered or elsewhere. Those whose own row fails are handed to
   * `onCulprit`. Returns whether something was committed.
   */
  async function settle(
    lane: Lane<R>,
    cut: Run<R>[],
    onCulprit: (run: Run<R>, failure: Failure) => void,
  ): Promise<boolean> {
    const at = now()
    let runs = cut
    for (let failures = 0; ; ) {
      runs = runs.flatMap(stillOpen)
      if (runs.length === 0) return false
      const outcome = await lane.flush(flushOf(runs, at))
      if (outcome.kind === 'committed') {
        for (const call of callsOf(runs)) calls.answer(call, told(call, at))
        return true
      }
      if (outcome.kind === 'unknown') {
        for (const call of callsOf(runs)) calls.answer(call, doubtful(outcome.cause))
        return false
      }
      for (const call of callsOf(runs)) call.isCommitting = false
      if (outcome.kind === 'withdrawn') {
        runs = runs.filter(isThere)
        continue
      }
      for (const call of callsOf(runs)) call.obstacle = outcome.cause
      const culprit = outcome.culprit === undefined ? undefined : runs[outcome.culprit]
      if (culprit) {
        runs = runs.filter((run) => run !== culprit)
        onCulprit(culprit, outcome)
      } else {
        await pause(Math.random() * Math.min(SHORTEST_PAUSE_MS * 2 ** failures++, LONGEST_PAUSE_MS))
      }
    }
  }

  /** A run without the calls that were answered meanwhile; none if it would be empty. */
  function stillOpen(run: Run<R>): Run<R>[] {
    const open = calls.open(run.calls)
    if (open === run.calls) return [run]
    if (open.length === 0) return []
    const { run: rest, left } = runOf(run.row, open, run.state)
    for (const call of left) place(run.row, call)
    return [rest]
  }

  /** Has the calls of a row that is gone look for it again. */
  function isThere({ state, calls }: Run<R>): boolean {
    if (state === 'gone') for (const call of calls) call.seek(call)
    return state !== 'gone'
  }

  function flushOf(runs: readonly Run<R>[], at: Date): Flush<R> {
    const all = callsOf(runs)
    return {
      runs,
      at,
      isAwaited: () => calls.open(all).length > 0,
      mayCommit() {
        if (calls.open(all) !== all) return false
        for (const call of all) call.isCommitting = true
        return true
      },
      deal(previous) {
        const isAgreed = runs.map((run, index) => dealTo(run, previous[index])).every(Boolean)
        return isAgreed && runs.map(({ write }) => write)
      },
    }
  }
}

function callsOf<R extends Row>(runs: readonly Run<R>[]): Call[] {
  return runs.flatMap(({ calls }) => calls)
}

/**
 * Deals a run its answers. Returns whether it may be committed as it was sent: not if its row is gone, nor if
 * its operations were merged and one of them is refused.
 */
function dealTo<R extends Row>(run: Run<R>, previousValue: number | undefined): boolean {
  if (previousValue === undefined) {
    run.state = 'gone'
    return false
  }
  const { answers, value } = dealRun(
    previousValue,
    run.calls.map(({ operation }) => operation),
  )
  for (const [index, call] of run.calls.entries()) call.dealt = answers[index]
  const refused = answers.filter((answer) => answer instanceof NthError).length
  if (run.state === 'careful') {
    run.write = refused < answers.length ? value : undefined
    return true
  }
  if (refused > 0) run.state = 'careful'
  return refused === 0
}

function told({ dealt }: Call, at: Date): Applied | Error {
  if (dealt instanceof Error) return dealt
  if (dealt === undefined) throw new Error('A flush was committed without having been dealt')
  return { value: dealt.value, previousValue: dealt.previousValue, at }
}

function doubtful(cause: unknown): NthError {
  const message = 'The connection to the database ended before it answered: this may have counted.'
  return new NthError('OUTCOME_UNKNOWN', message, {}, { cause })
}
