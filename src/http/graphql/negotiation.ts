import type { IncomingHttpHeaders } from 'node:http'

/** Media types of a response that isn't a stream. */
export type AnswerType = 'application/json' | 'application/graphql-response+json'

/** Accept headers of common clients, and the type that Yoga returns for each. A test compares them. */
const answerTypes = new Map<string | undefined, AnswerType>([
  [undefined, 'application/json'],
  ['*/*', 'application/json'],
  ['application/json', 'application/json'],
  ['application/json, text/plain, */*', 'application/json'],
  ['application/graphql-response+json', 'application/graphql-response+json'],
  ['application/graphql-response+json, application/json', 'application/graphql-response+json'],
  ['application/graphql-response+json,application/json;q=0.9', 'application/graphql-response+json'],
])

const jsonTypes = new Set<string | undefined>([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
  'application/json; charset=UTF-8',
  'application/json;charset=UTF-8',
])

/** The type of the response; undefined if only Yoga can determine it. */
export function usualAnswerType({ accept }: IncomingHttpHeaders): AnswerType | undefined {
  return answerTypes.get(accept)
}

/** Whether the body is declared as JSON, in one of the usual ways. */
export function saysJson(headers: IncomingHttpHeaders): boolean {
  return jsonTypes.has(headers['content-type'])
}

/** Whether the request is a navigation of a browser. */
export function wantsHtml({ accept }: IncomingHttpHeaders): boolean {
  return accept?.includes('text/html') ?? false
}
