import { firstOf, touches } from './batch.ts'
import { type Applied, type Call, type CallsOptions, doubtful, openCalls, type Request } from './calls.ts'
import type { Answer, Operation } from './dealing.ts'
import { unavailable } from './errors.ts'
import type { Lane, Row, Rows } from './lane.ts'
import { MissingRow, openSeeking } from './seeking.ts'
import { type Failure, openSettling } from './settling.ts'
import { openSuspects } from './suspects.ts'

/**
 * Group commit: calls that arrive while a transaction is under way are gathered, and go together in the next
 * one. Operations on the same row are merged into one statement, and each is dealt its own number.
 *
 * A call is in one of these states:
 *
 *   finding     its rows are looked up, or made
 *   waiting     its rows are known; a lane will take it
 *   sent        it is part of a flush whose COMMIT was not sent
 *   committing  COMMIT may have been sent (`isCommitting`)
 *   answered    its caller was told (`isAnswered`)
 *
 *   finding → waiting → sent → committing → answered: the ordinary way
 *   sent → sent          rolled back: with a neighbour that is at fault, or for a conflict
 *   sent → waiting       a row or claim of its own is at fault: that is tried apart, on a side lane
 *   sent → finding       a row of it is gone, or was read from another database
 *   sent → answered      INTERNAL_SERVER_ERROR: it can't be written or read for an exception of our own
 *   committing → sent    the connection was lost, and the ledger says that COMMIT took no effect
 *   finding, waiting, sent → answered   UNAVAILABLE, at its deadline
 *   committing → answered               OUTCOME_UNKNOWN, at its deadline or if the ledger cannot tell
 *
 * What always holds: a call is in one place only, either waiting or in one flush; it is answered once; and
 * once it is answered no COMMIT that holds it is sent.
 */
export interface GroupCommit<R extends Row> {
  /**
   * Does operations, each on the row behind the key of the same index, exactly once. With a claim, a repeat is
   * told what was done at first.
   *
   * @throws {NthError} LIMIT_REACHED, OUT_OF_RANGE or, for a claim, IDEMPOTENCY_KEY_REUSED; UNAVAILABLE if
   *   nothing was done; OUTCOME_UNKNOWN if nobody can say
   */
  change<Key>(rows: Rows<Key, R>, keys: readonly Key[], request: Request): Promise<Applied>
  /**
   * Does one operation on each row that is there of those behind some keys, each by itself. Returns for each key
   * what was done, why it was not, or undefined where there is no row.
   *
   * @throws {NthError} UNAVAILABLE
   */
  changeEach<Key>(
    rows: Rows<Key, R>,
    keys: readonly Key[],
    operation: Operation,
  ): Promise<(Answer | Error | undefined)[]>
  /** Ends the lanes. Called when nobody waits any more. */
  close(): Promise<void>
}

export interface GroupCommitOptions<R extends Row> extends CallsOptions {
  openLane: () => Lane<R>
  /** Told of failures that an operator should see. */
  onFault: (error: unknown) => void
  now: () => Date
  /** For how long an idempotency key stands for what was done, in milliseconds. */
  keyTtlMs: number
}

/** Each takes one row or claim at a time, of those that would hold up the others. */
const SIDE_LANES = 2

export function openGroupCommit<R extends Row>(options: GroupCommitOptions<R>): GroupCommit<R> {
  const { openLane, onFault, now } = options
  const calls = openCalls<R>(options)
  const { settle, probe } = openSettling({ ...options, calls })
  const seekerOf = openSeeking({ calls, now, place, onFault })
  const suspects = openSuspects<R>(firstOf)
  const lanes: Lane<R>[] = []
  const main = openMain()
  const sides = Array.from({ length: SIDE_LANES }, openSide)

  return {
    async change(rows, keys, request) {
      calls.checkRoom()
      return calls.admit(request, seekerOf(rows, keys, true))
    },

    async changeEach(rows, keys, operation) {
      calls.checkRoom()
      const request: Request = {
        operations: [operation],
        mode: 'one',
        claim: undefined,
        wantsPeriodValues: false,
      }
      return Promise.all(
        keys.map((key) =>
          calls.admit(request, seekerOf(rows, [key], false)).then(
            ({ answers }) => answers[0],
            (error) => (error instanceof MissingRow ? undefined : error),
          ),
        ),
      )
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

  /** Ends calls for an exception that nobody has foreseen. What flushes goes on. */
  function fail(open: readonly Call<R>[], error: unknown): false {
    onFault(error)
    const reason = 'An error of the server came between'
    const failure = error instanceof Error ? error : new Error(String(error))
    for (const call of open) calls.answer(call, call.isCommitting ? doubtful(call, reason, error) : failure)
    return false
  }

  function place(call: Call<R>): void {
    if (call.isAnswered) return
    const key = suspects.in(call)
    if (key === undefined) main.add(call)
    else suspect(key, [call])
  }

  function suspect(key: string, waiting: readonly Call<R>[], first = false): void {
    suspects.add(key, waiting, first)
    for (const side of sides) side.wake()
  }

  /**
   * The ordinary way: everything that waits goes together, and what comes meanwhile goes next. A flush is cut
   * when all requests that were ready have been read, as half of them would find the lane taken otherwise.
   *
   * One lane is enough. Two, between which the rows were divided, had more flushes of half the size: with wrk,
   * 64 connections and 10 000 counters on a busy machine of two cores, a call took 88 to 100 µs of Nth's
   * processor time then rather than 76 to 79, and 37 to 46 µs of the database's rather than 19 to 22.
   */
  function openMain() {
    const lane = newLane()
    const waiting = new Set<Call<R>>()
    const hall = { leave }
    let isRunning = false

    function leave(call: Call<R>): void {
      call.place = undefined
      waiting.delete(call)
    }

    function take(calls: readonly Call<R>[]): readonly Call<R>[] {
      for (const call of calls) leave(call)
      return calls
    }

    async function work(): Promise<void> {
      isRunning = true
      while (waiting.size > 0) {
        await endOfTurn()
        const cut = take(firstOf(waiting))
        await settle(lane, cut, apart).catch((error) => fail(cut, error))
      }
      isRunning = false
    }

    function apart(key: string, blamed: readonly Call<R>[]): void {
      const others = take([...waiting].filter((call) => touches(call, key)))
      suspect(key, [...blamed, ...others], true)
    }

    return {
      add(call: Call<R>): void {
        waiting.add(call)
        call.place = hall
        if (!isRunning) void work()
      },
    }
  }

  /** The way of rows and claims that failed: each apart, until a flush of it succeeds. */
  function openSide() {
    const lane = newLane()
    let isRunning = false

    async function work(): Promise<void> {
      isRunning = true
      for (let tried = suspects.next(); tried; tried = suspects.next()) {
        const { key } = tried
        const isDone = await attempt(tried).catch((error) => fail(tried.calls, error))
        if (isDone) for (const call of suspects.clear(key)) place(call)
        else suspects.putBack(key)
      }
      isRunning = false
    }

    async function attempt({ key, calls: tried }: { key: string; calls: Call<R>[] }): Promise<boolean> {
      const other = tried.find((call) => touchesMore(call))
      // While it waits for the suspect, it must not hold another row.
      const failure = other && (await probe(lane, key, other))
      if (failure) {
        blame(key, tried, failure)
        return false
      }
      return settle(lane, tried, blame)
    }

    function blame(key: string, blamed: readonly Call<R>[], { cause, isFault }: Failure): void {
      if (isFault) {
        onFault(cause)
        const refusal = unavailable('The database refuses this change; nothing was done.', cause)
        for (const call of blamed) calls.answer(call, refusal)
      } else {
        suspect(key, blamed, true)
      }
    }

    return {
      wake() {
        if (!isRunning) void work()
      },
    }
  }
}

function touchesMore<R extends Row>({ rows, claim }: Call<R>): boolean {
  return rows.length + (claim ? 1 : 0) > 1
}

/** Comes after all sockets that were ready. */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
