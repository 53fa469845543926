import { GraphQLError, getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { ErrorCode, ErrorDetails } from '../../core/errors.ts'

/** Rejects what isn't GraphQL: browsers send forms to any origin without a preflight, so any page could write. */
export const requests: Plugin = {
  onRequestParse({ request, requestParser, setRequestParser, endResponse, fetchAPI }) {
    if (!accepts(request.headers.get('accept') ?? '')) {
      // Before anything is executed: a number that can't be returned must not be issued.
      const message = `Unsupported Accept header; this server returns ${responseTypes.join(' or ')}.`
      const error = new GraphQLError(message, { extensions: { code: 'BAD_REQUEST' satisfies ErrorCode } })
      return endResponse(fetchAPI.Response.json({ errors: [error] }, { status: 406 }))
    }
    const type = mediaType(request.headers.get('content-type') ?? '')
    if (request.method === 'POST' && !requestTypes.includes(type)) {
      const message = 'Send the request as application/json, with a body such as {"query": "…"}.'
      throw requestError(415, 'BAD_REQUEST', message)
    }
    if (requestParser) setRequestParser((request) => parse(requestParser, request))
  },

  onParams({ params }) {
    if (params.query === undefined) {
      throw requestError(400, 'BAD_REQUEST', 'The request has no "query", the GraphQL document to execute.')
    }
  },

  onParse() {
    return ({ result, context }) => {
      if (result instanceof Error) return
      const operation = getOperationAST(result, context.params?.operationName)?.operation
      if (operation === 'mutation' && context.request?.method === 'GET') {
        throw requestError(405, 'OPERATION_RESOLUTION_FAILURE', 'Mutations can only be sent by POST.', {
          headers: { Allow: 'POST' },
        })
      }
    }
  },
}

const requestTypes = ['application/json', 'application/graphql+json', 'application/graphql']
const responseTypes = ['application/json', 'application/graphql-response+json']
const acceptedTypes = [...responseTypes, 'text/event-stream', 'multipart/mixed', 'application/*', '*/*']

function accepts(header: string): boolean {
  return header.trim() === '' || header.split(',').some((range) => acceptedTypes.includes(mediaType(range)))
}

function mediaType(header: string): string {
  return (header.split(';')[0] ?? '').trim().toLowerCase()
}

/** An error of JSON.parse in Yoga's parsers is the caller's mistake, and contains its position. */
async function parse<T>(parser: (request: Request) => T, request: Request): Promise<Awaited<T>> {
  try {
    return await parser(request)
  } catch (error) {
    const cause = error instanceof GraphQLError ? error.extensions.originalError : error
    const { name, message } = (cause ?? {}) as Partial<Error>
    if (name !== 'SyntaxError') throw error
    // The message may go on with the whole body.
    const [reason] = (message ?? '').split(', "')
    throw requestError(400, 'BAD_REQUEST', `The request is not valid JSON: ${reason}.`)
  }
}

/** Creates the error for a request that isn't executed. */
export function requestError(
  status: number,
  code: ErrorCode,
  message: string,
  { headers = {}, ...details }: ErrorDetails & { headers?: Record<string, string> } = {},
): GraphQLError {
  return new GraphQLError(message, { extensions: { code, ...details, http: { status, headers } } })
}
