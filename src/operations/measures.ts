import { channel, type TracingChannel, tracingChannel } from 'node:diagnostics_channel'

/*
 * What a process measures of itself is published on Node's diagnostics channels, whose names begin with `nth:`. Nothing is
 * measured unless somebody subscribes, such as the metrics.
 */

interface Measure<Message> {
  readonly hasSubscribers: boolean
  publish(message: Message): void
}

export const LIMITS = [
  'connections',
  'memory',
  'pending changes',
  'rate',
  'streams',
  'watched names',
] as const
export type Limit = (typeof LIMITS)[number]

export interface RequestMeasure {
  /** Undefined: it was refused before that was known. */
  operation: 'query' | 'mutation' | 'subscription' | undefined
  operationName: string | undefined
  /** Code of the first error; undefined: none. */
  code: string | undefined
  /** The first characters of the API key, or the kind of other callers; undefined: not known yet. */
  key: string | undefined
  /** Why it was refused, where the response doesn't say it: of a token, or of keys that can't be fetched. */
  readonly reason: string | undefined
  /** Until now, since its work began. */
  readonly durationMs: number
  /** Under which its failure is logged. It is made when it is first read. */
  readonly id: string
}

/** A change of what callers rely on: a value that was set, a definition, a key, a trusted document. Never an addition. */
export interface Audited {
  /** The mutation, or the command. */
  field: string
  /** Who made it, as `nameOf` calls a caller; of a command, the user of the operating system. */
  by: string
  namespace?: string | undefined
  /** Of a counter or a sequence, the prefix of a key, or the ID of a document. */
  name?: string | undefined
  group?: string | undefined
  /** Of all names that start with it. */
  prefix?: string | undefined
  /** How many were changed, of a list. */
  count?: number | undefined
  requestId?: string | undefined
  /** OUTCOME_UNKNOWN: it may have been made. */
  code?: string | undefined
}

export const auditMeasure: Measure<Audited> = channel('nth:audit')

/** A request was answered; a subscription, when it was opened. */
export const requestMeasure: Measure<RequestMeasure> = channel('nth:request')

/** A flush was committed. */
export const flushMeasure: Measure<{ operations: number; durationMs: number }> = channel('nth:flush')

/** How long a change waited for its answer, in milliseconds. */
export const waitMeasure: Measure<number> = channel('nth:wait')

/** An attempt of a flush was not committed, and is repeated. */
export const retryMeasure: Measure<undefined> = channel('nth:retry')

/** The fence was read, as a commit got no clear answer. */
export const fenceReadMeasure: Measure<undefined> = channel('nth:fence-read')

/** A text of statements is sent to the database. */
export const tripMeasure: Measure<undefined> = channel('nth:trip')

/** A limit refused a request, or a field of one. */
export const refusalMeasure: Measure<Limit> = channel('nth:refusal')

/*
 * Work that takes time is published on Node's tracing channels, whose names begin with `tracing:nth:`. Unless somebody
 * subscribes, such as `tracing.ts`, Node only calls the function that does it.
 */

type Trace<Work> = TracingChannel<unknown, Work & object>

/** A request, its response, and what is found out about it. */
interface RequestWork {
  request: { method?: string | undefined; headers: Readonly<Record<string, string | string[] | undefined>> }
  response: { headersSent: boolean; statusCode: number; once(event: 'close', listener: () => void): unknown }
  note: RequestMeasure
}

/** A request to the API, until its handler has returned. */
export const requestTrace: Trace<RequestWork> = tracingChannel('nth:request')

/** The execution of an operation: from its parameters to its result. */
export const operationTrace: Trace<RequestWork> = tracingChannel('nth:operation')

/** A flush, with all its attempts, for calls that were published on `changeChannel`. */
export const flushTrace: Trace<{ calls: readonly { request: object }[] }> = tracingChannel('nth:flush')

/** A call that changes something is accepted; it will be part of a flush. */
export const changeChannel = channel('nth:change')
