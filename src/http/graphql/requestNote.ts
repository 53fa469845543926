import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { ExecutionResult } from 'graphql'
import type { Caller } from '../../core/access/caller.ts'
import { type RequestMeasure, requestMeasure } from '../../operations/measures.ts'

/** What is found out about a request, until it is measured. */
export class RequestNote {
  readonly #request: IncomingMessage
  readonly #beganAt: number
  #id: string | undefined
  operation: RequestMeasure['operation']
  operationName: string | undefined
  code: string | undefined
  caller: Caller | undefined

  constructor(request: IncomingMessage) {
    this.#request = request
    this.#beganAt = performance.now()
  }

  /** The ID under which its failure is logged: the one that it was sent with, or a new one. */
  get id(): string {
    this.#id ??= givenId(this.#request) ?? randomUUID()
    return this.#id
  }

  /** Publishes the measure of the request, which was answered. */
  measure(): void {
    const { operation, operationName, code, caller } = this
    const durationMs = performance.now() - this.#beganAt
    const key = caller?.key?.prefix ?? caller?.kind
    requestMeasure.publish({ operation, operationName, code, key, durationMs, id: () => this.id })
  }
}

/** Header of a request with an ID, and of each response with an error. */
export const ID_HEADER = 'x-request-id'

function givenId({ headers }: IncomingMessage): string | undefined {
  const given = headers[ID_HEADER]
  return typeof given === 'string' && /^[\w.:+/=-]{1,128}$/.test(given) ? given : undefined
}

/** The code of the first error of a result; undefined: there is none. */
export function codeOf({ errors }: ExecutionResult): string | undefined {
  const [error] = errors ?? []
  return error && String(error.extensions?.code ?? 'BAD_REQUEST')
}
