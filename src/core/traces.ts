import { channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import type { RequestMeasure } from './measures.ts'

/*
 * Work that takes time is published on Node's tracing channels, whose names begin with `tracing:nth:`. Unless somebody
 * subscribes, such as `src/tracing`, this costs one comparison.
 */

type Trace<Work> = TracingChannel<unknown, Work & object>

/** What is known of a request once it was answered. */
export type RequestFindings = Pick<RequestMeasure, 'operation' | 'operationName' | 'code'> & {
  /** Under which its failure is logged. It is made when it is first asked for. */
  readonly id: string
}

export interface RequestWork {
  method: string
  headers: Readonly<Record<string, string | string[] | undefined>>
  findings: RequestFindings
  /** Calls a listener once the response was sent or its connection has ended; without a status if none was sent. */
  onAnswered(listener: (status?: number) => void): void
}

/** A request to the API, until its handler has returned. */
export const requestTrace: Trace<RequestWork> = tracingChannel('nth:request')

/** The execution of an operation: from its parameters to its result. */
export const operationTrace: Trace<{ findings: RequestFindings }> = tracingChannel('nth:operation')

/** A flush, with all its attempts, for calls that were published on `changeChannel`. */
export const flushTrace: Trace<{ requests: readonly object[] }> = tracingChannel('nth:flush')

/** A call that changes something is accepted; it will be part of a flush. */
export const changeChannel = channel('nth:change')

/** Runs work within a trace. */
export function traced<Work, T>(
  trace: Trace<Work>,
  work: () => Work & object,
  run: () => Promise<T>,
): Promise<T> {
  return trace.start.hasSubscribers ? trace.tracePromise(run, work()) : run()
}
