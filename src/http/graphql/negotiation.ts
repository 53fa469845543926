import type { IncomingHttpHeaders } from 'node:http'

/** Media types of a response that isn't a stream. */
export type ResponseType = 'application/json' | 'application/graphql-response+json'

/** Accept headers of common clients, and the type that Yoga returns for each. A test compares them. */
const responseTypes = new Map<string | undefined, ResponseType>([
  [undefined, 'application/json'],
  ['*/*', 'application/json'],
  ['application/json', 'application/json'],
  ['application/json, text/plain, */*', 'application/json'],
  ['application/graphql-response+json', 'application/graphql-response+json'],
  ['application/graphql-response+json, application/json', 'application/graphql-response+json'],
  ['application/graphql-response+json,application/json;q=0.9', 'application/graphql-response+json'],
])

/** The type of the response; undefined if only Yoga can determine it. */
export function usualResponseType({ accept }: IncomingHttpHeaders): ResponseType | undefined {
  return responseTypes.get(accept)
}

/** Whether the body is declared as JSON, in one of the usual ways. */
export function hasJsonBody(headers: IncomingHttpHeaders): boolean {
  return /^application\/json(; ?charset=utf-8)?$/i.test(headers['content-type'] ?? '')
}

/** Whether the request is a navigation of a browser. */
export function wantsHtml({ accept }: IncomingHttpHeaders): boolean {
  return accept?.includes('text/html') ?? false
}
