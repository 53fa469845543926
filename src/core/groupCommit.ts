import { setTimeout as pause } from 'node:timers/promises'
import { type Applied, type Call, type CallsOptions, openCalls } from './calls.ts'
import { dealRun, type Operation } from './dealing.ts'
import { NthError, unavailable } from './errors.ts'
import { openWaiting, type Run, runOf } from './runs.ts'
import { openSuspects } from './suspects.ts'

/**
 * Group commit: operations that arrive while a transaction is under way are gathered, and go together in the
 * next one. Those on the same row are merged into one statement, and each is dealt its own number.
 *
 * A call is in one of these states:
 *
 *   finding     its row is looked up, or made
 *   waiting     its row is known; a lane will take it
 *   sent        it is part of a flush whose COMMIT was not sent
 *   committing  COMMIT may have been sent (`isCommitting`)
 *   answered    its caller was told (`isAnswered`)
 *
 *   finding → waiting → sent → committing → answered: the ordinary way
 *   sent → sent          rolled back: with a neighbour that is at fault, or for a conflict
 *   sent → waiting       its own row is at fault: it goes alone, on a side lane
 *   sent → finding       its row is gone
 *   committing → sent    the connection was lost, and the ledger says that COMMIT took no effect
 *   finding, waiting, sent → answered   UNAVAILABLE, at its deadline
 *   committing → answered               OUTCOME_UNKNOWN, at its deadline or if the ledger cannot tell
 *
 * What always holds: a call is in one place only, either waiting or in one flush; it is answered once; and
 * once it is answered no COMMIT that holds it is sent.
 */
export interface GroupCommit<R extends Row> {
  /**
   * Does an operation on the row behind a key, exactly once.
   *
   * @throws {NthError} OUT_OF_RANGE; UNAVAILABLE if nothing was done; OUTCOME_UNKNOWN if nobody can say
   */
  change<Key>(rows: Rows<Key, R>, key: Key, operation: Operation): Promise<Applied>
  /** Ends the lanes. Called when nobody waits any more. */
  close(): Promise<void>
}

/** A row that counts. */
export interface Row {
  /** The same for the same row only. */
  key: string
  id: number
}

/** Finds the row behind a key, making it if needed. */
export interface Rows<Key, R extends Row> {
  /** Without asking the database. */
  known(key: Key): R | undefined
  /** `at`: when it was made, if it has to be. */
  find(key: Key, at: Date): Promise<R>
  /** Says that a row is not there any more. */
  forget(key: Key): void
}

/** One connection that flushes, one flush at a time. */
export interface Lane<R extends Row> {
  flush(flush: Flush<R>): Promise<Outcome>
  close(): Promise<void>
}

/** What goes into one transaction. */
export interface Flush<R extends Row> {
  /** One for each row. */
  runs: readonly Run<R>[]
  at: Date
  /**
   * Deals the numbers, from what each run's row held before; undefined where there is no such row. Says what
   * the rows of careful runs are to hold (undefined: as before), or `false`: roll back.
   */
  deal(previous: readonly (number | undefined)[]): (number | undefined)[] | false
  /** Asked directly before COMMIT is sent; `false`: roll back. */
  mayCommit(): boolean
  /** Whether anybody still waits for it. */
  isAwaited(): boolean
}

export type Outcome =
  | { kind: 'committed' }
  /** Rolled back as `deal` or `mayCommit` wished. */
  | { kind: 'withdrawn' }
  /** Certainly not done. `culprit` is the index of the run that failed, if one did: locked, or refused for good (`isFault`). */
  | { kind: 'failed'; cause: unknown; culprit?: number; isFault?: boolean }
  /** Nobody can say whether it was done. */
  | { kind: 'unknown'; cause: unknown }

export interface GroupCommitOptions<R extends Row> extends CallsOptions {
  openLane: () => Lane<R>
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
  now: () => Date
}

/** The second lane works while the first one waits for the disk; more of them gain nothing. */
const LANES = 2
/** Each takes one row at a time, of those that would hold up the others. */
const SIDE_LANES = 2
/** A row that is gone was deleted or defined anew; one that is gone time and again was never made. */
const MOST_SEEKS = 5
const SHORTEST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/** Gets calls and sees to it that they are flushed. */
interface Queue<R extends Row> {
  add(row: R, call: Call): void
}

type Failure = Extract<Outcome, { kind: 'failed' }>

export function openGroupCommit<R extends Row>(options: GroupCommitOptions<R>): GroupCommit<R> {
  const { openLane, onFault, now } = options
  const calls = openCalls(options)
  const suspects = openSuspects<R>()
  const lanes: Lane<R>[] = []
  const queues = Array.from({ length: LANES }, openQueue)
  const sides = Array.from({ length: SIDE_LANES }, openSide)

  return {
    change(rows, key, operation) {
      let seeks = 0
      return calls.admit(operation, (call) => {
        if (seeks > 0) rows.forget(key)
        if (++seeks > MOST_SEEKS) {
          return calls.answer(call, new Error(`The row that counts is missing for ${JSON.stringify(key)}`))
        }
        const row = rows.known(key)
        if (row) return place(row, call)
        rows.find(key, now()).then(
          (found) => place(found, call),
          (error) => calls.answer(call, error),
        )
      })
    },

    async close() {
      await Promise.all(lanes.map((lane) => lane.close()))
    },
  }

  function newLane(): Lane<R> {
    const lane = openLane()
    lanes.push(lane)
    return lane
  }

  function place(row: R, call: Call): void {
    if (!calls.isOpen(call)) return
    if (suspects.has(row)) suspect(row, [call])
    else queueOf(row).add(row, call)
  }

  function queueOf({ id }: R): Queue<R> {
    // There are so many queues, and no id is negative.
    return queues[id % LANES] as Queue<R>
  }

  function suspect(row: R, others: readonly Call[], first = false): void {
    suspects.add(row, others, first)
    for (const side of sides) side.wake()
  }

  /** The ordinary way: everything that waits goes together, and what comes meanwhile goes next. */
  function openQueue(): Queue<R> {
    const lane = newLane()
    const waiting = openWaiting<R>()
    let isRunning = false

    async function work(): Promise<void> {
      isRunning = true
      while (!waiting.isEmpty()) {
        await settle(lane, waiting.cut(), ({ row, calls }) =>
          suspect(row, [...calls, ...waiting.take(row)], true),
        )
      }
      isRunning = false
    }

    return {
      add(row, call) {
        waiting.add(row, call)
        if (!isRunning) void work()
      },
    }
  }

  /** The way of rows that failed: each alone, until a flush of it succeeds. */
  function openSide() {
    const lane = newLane()
    let isRunning = false

    async function work(): Promise<void> {
      isRunning = true
      for (let run = suspects.next(); run; run = suspects.next()) {
        const { row } = run
        const isDone = await settle(lane, [run], (culprit, { cause, isFault }) => {
          if (!isFault) return suspects.add(row, culprit.calls, true)
          onFault(cause)
          const refusal = unavailable('The database refuses this change; nothing was done.', cause)
          for (const call of culprit.calls) calls.answer(call, refusal)
        })
        if (isDone) for (const call of suspects.clear(row)) place(row, call)
        else suspects.putBack(row)
      }
      isRunning = false
    }

    return {
      wake() {
        if (!isRunning) void work()
      },
    }
  }

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
    const open = run.calls.filter(calls.isOpen)
    if (open.length === run.calls.length) return [run]
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
    return {
      runs,
      at,
      isAwaited: () => callsOf(runs).some(calls.isOpen),
      mayCommit() {
        if (!callsOf(runs).every(calls.isOpen)) return false
        for (const call of callsOf(runs)) call.isCommitting = true
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
  return { ...dealt, at }
}

function doubtful(cause: unknown): NthError {
  const message = 'The connection to the database ended before it answered: this may have counted.'
  return new NthError('OUTCOME_UNKNOWN', message, {}, { cause })
}
