import { channel } from 'node:diagnostics_channel'

/*
 * What a process measures of itself is published on Node's diagnostics channels, whose names begin with `nth:`. Nothing is
 * measured unless somebody subscribes, such as the metrics.
 */

interface Measure<Message> {
  readonly hasSubscribers: boolean
  publish(message: Message): void
}

/** Limits that refuse requests. */
export type Limit = 'connections' | 'memory' | 'pending changes' | 'rate' | 'streams' | 'watched names'

export interface RequestMeasure {
  /** Undefined: it was refused before that was known. */
  operation: 'query' | 'mutation' | 'subscription' | undefined
  operationName: string | undefined
  /** Code of the first error; undefined: none. */
  code: string | undefined
  /** The first characters of the API key, or the kind of other callers; undefined: not known yet. */
  key: string | undefined
  durationMs: number
  /** Its ID, which is made when it is asked for. */
  id(): string
}

/** A request was answered; a subscription, when it was opened. */
export const requestMeasure = measure<RequestMeasure>('nth:request')

/** A flush was committed. */
export const flushMeasure = measure<{ operations: number; durationMs: number }>('nth:flush')

/** How long a change waited for its answer, in milliseconds. */
export const waitMeasure = measure<number>('nth:wait')

/** An attempt of a flush was not committed, and is repeated. */
export const retryMeasure = measure<undefined>('nth:retry')

/** The fence was read, as the answer to a COMMIT was lost. */
export const fenceReadMeasure = measure<undefined>('nth:fence-read')

/** A text of statements is sent to the database. */
export const tripMeasure = measure<undefined>('nth:trip')

/** A limit refused a request, or a field of one. */
export const refusalMeasure = measure<Limit>('nth:refusal')

function measure<Message>(name: string): Measure<Message> {
  return channel(name)
}
