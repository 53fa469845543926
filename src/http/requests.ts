import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  type ExecutionArgs,
  type ExecutionResult,
  type FieldNode,
  getArgumentValues,
  getVariableValues,
  type OperationDefinitionNode,
} from 'graphql'
import type { Context } from '../graphql/context.ts'
import { responseName } from '../graphql/selections.ts'
import type { RequestMeasure } from '../operations/measures.ts'
import { keyFault } from '../rules/idempotency.ts'
import type { Caller } from '../rules/rights.ts'
import type { Access } from './authentication.ts'
import { HttpError } from './errors.ts'
import type { ResponseStream } from './responseStream.ts'

/** What is found out about a request, until it is measured. */
export class RequestNote implements RequestMeasure {
  readonly #request: IncomingMessage
  readonly #beganAt = performance.now()
  #id: string | undefined
  operation: RequestMeasure['operation']
  operationName: string | undefined
  code: string | undefined
  /** Why it was refused, where the response doesn't say it. */
  cause: unknown
  /** Whether its document can't be parsed, or isn't valid. */
  isDocumentRefused = false
  caller: Caller | undefined

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  /** The one that it was sent with, or a new one. */
  get id(): string {
    const given = this.#request.headers[ID_HEADER]
    this.#id ??= typeof given === 'string' && GIVEN_ID.test(given) ? given : randomUUID()
    return this.#id
  }

  get key(): string | undefined {
    return this.caller?.key?.prefix ?? this.caller?.kind
  }

  get reason(): string | undefined {
    const reasons: string[] = []
    for (let { cause } = this; cause instanceof Error; cause = cause.cause) reasons.push(cause.message)
    return reasons.length > 0 ? reasons.join(': ') : undefined
  }

  get durationMs(): number {
    return performance.now() - this.#beganAt
  }
}

/** Header of a request with an ID, and of each response with an error. */
export const ID_HEADER = 'x-request-id'
const GIVEN_ID = /^[\w.:+/=-]{1,128}$/

/** Whether a client already has what a response would send (RFC 9110, 13.1.2). */
export function hasTag({ headers }: IncomingMessage, tag: string): boolean {
  const tags = headers['if-none-match']?.split(',').map((sent) => sent.trim())
  return tags?.includes(tag) ?? false
}

/** The code of the first error of a result; undefined: there is none. */
export function codeOf({ errors }: ExecutionResult): string | undefined {
  const [error] = errors ?? []
  return error && String(error.extensions?.code ?? 'BAD_REQUEST')
}

const HEADER = 'idempotency-key'
const ARGUMENT = 'idempotencyKey'

/** A quoted string of a structured field; parameters after it are ignored. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"\s*(?:;.*)?$/

/** What the contexts of Yoga and of compiled operations are created from. */
export interface ServerContext extends Access {
  req: IncomingMessage
  note: RequestNote
  /** Receives the cost of the request, as in the context of GraphQL. */
  cost: Context['cost']
  /** Characters, or bytes, of its body or address without the document. */
  variablesLength: number
  /** Makes what a subscription is answered with; undefined: its client accepts no stream, or it arrived over a WebSocket. */
  openStream?: () => ResponseStream | undefined
  /** Whether it arrived over a WebSocket, where only subscriptions may. */
  isOnSocket?: boolean
}

/** The context of an operation: Yoga adds what the schema's context has to what the server gave it. */
export function contextOf({ contextValue }: ExecutionArgs): Context & ServerContext {
  // Nothing else executes operations with these plugins.
  return contextValue as Context & ServerContext
}

/** The key in a request's header, without the quotes of a structured field. */
export function idempotencyKeyIn({ req }: ServerContext): string | undefined {
  const text = req.headers[HEADER]
  if (typeof text !== 'string') return undefined
  return QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1') ?? text
}

/** Rejects a mutation, before it is executed, if it isn't clear what its key is for. Queries ignore the header. */
export function assertKeyHeader(
  args: ExecutionArgs,
  { variableDefinitions = [] }: OperationDefinitionNode,
  fields: readonly FieldNode[],
): void {
  const context = contextOf(args)
  const key = idempotencyKeyIn(context)
  if (key === undefined) return
  const times = context.req.headersDistinct[HEADER]?.length ?? 1
  if (times > 1) throw rejected('The header Idempotency-Key was sent more than once.')
  const { message: reason, ...details } = keyFault(key) ?? {}
  if (reason !== undefined) throw rejected(`The header Idempotency-Key ${reason}.`, details)
  if (new Set(fields.map(responseName)).size !== 1) {
    const advice = 'Use the argument idempotencyKey of each field.'
    throw rejected(`The header Idempotency-Key requires an operation with one field. ${advice}`)
  }
  const { schema, variableValues } = args
  const { coerced = {} } = getVariableValues(schema, variableDefinitions, variableValues ?? {})
  for (const field of fields) {
    const { value: name } = field.name
    const declared = schema.getMutationType()?.getFields()[name]
    // A key that is ignored must not seem to make a retry safe.
    if (!declared?.args.some((argument) => argument.name === ARGUMENT))
      throw rejected(`${name} takes no idempotency key; send it without the header Idempotency-Key.`)
    if ((getArgumentValues(declared, field, coerced)[ARGUMENT] ?? key) !== key)
      throw rejected('The header Idempotency-Key and the argument idempotencyKey differ; send one of them.')
  }
}

function rejected(message: string, details?: { limit?: number }): HttpError {
  return new HttpError(400, 'BAD_USER_INPUT', message, { argument: ARGUMENT, ...details })
}
