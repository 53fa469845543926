import { unavailable } from '../errors.ts'
import { refusalMeasure } from '../measures.ts'
import { Call, expired } from './call.ts'
import type { Request } from './request.ts'

/** All calls without an answer, with their limit and their deadlines. */
export type PendingCalls = ReturnType<typeof openPendingCalls>

export interface PendingCallsOptions {
  /** Default timeout of a call, in milliseconds. */
  timeoutMs: number
  /** Maximum number of waiting operations. A call is admitted whole while there are fewer. */
  maxPending: number
}

export function openPendingCalls({ timeoutMs, maxPending }: PendingCallsOptions) {
  // In order of arrival, which for the default timeout is the order of deadlines. Others have a timer of their own.
  const pending = new Set<Call>()
  let operations = 0
  let timer: NodeJS.Timeout | undefined

  function remove(call: Call): void {
    pending.delete(call)
    operations -= call.request.operations.length
  }

  function watch(): void {
    const [oldest] = pending
    if (timer || !oldest) return
    const leftMs = oldest.deadline - performance.now()
    timer = afterSockets(leftMs, () => {
      timer = undefined
      const now = performance.now()
      for (const call of pending) {
        if (call.deadline > now) break
        call.settle(expired(call, timeoutMs))
      }
      watch()
    })
  }

  return {
    /** The error of a call that arrives now; undefined: there is room for it. */
    refusal() {
      if (operations < maxPending) return undefined
      refusalMeasure.publish('pending changes')
      return unavailable(`More than ${maxPending} changes wait for the database; this one was not done.`)
    },

    /** How many operations wait. */
    get operations() {
      return operations
    },

    /** Creates a call. At its deadline it is answered with UNAVAILABLE, or OUTCOME_UNKNOWN while it is committing. */
    admit(request: Request) {
      const { deadline = performance.now() + timeoutMs } = request
      const call = new Call(request, deadline, remove)
      pending.add(call)
      operations += request.operations.length
      watch()
      if (request.deadline !== undefined) {
        afterSockets(deadline - performance.now(), () => call.settle(expired(call, timeoutMs)))
      }
      return call
    },

    /** Answers those calls whose deadline has passed: the timer may be late. */
    expire(calls: readonly Call[]) {
      const now = performance.now()
      for (const call of calls) if (call.deadline <= now) call.settle(expired(call, timeoutMs))
    },
  }
}

/**
 * Runs work after a delay, once the sockets that are ready have been read: after a pause of the whole process they may
 * hold the answers. Doesn't keep the process alive.
 */
function afterSockets(delayMs: number, work: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(work), Math.max(0, delayMs)).unref()
}
