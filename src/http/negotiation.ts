import type { IncomingHttpHeaders } from 'node:http'

/** The forms of an answer that isn't a stream. */
export type AnswerType = 'application/json' | 'application/graphql-response+json'

/** The Accept headers that common clients send, and what Yoga answers to them. A test compares. */
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

/** The form that an answer will have, if the request is one of those that need no closer look. */
export function usualAnswerType({ accept }: IncomingHttpHeaders): AnswerType | undefined {
  return answerTypes.get(accept)
}

/** Whether the body is said to be JSON, in one of the usual ways. */
export function saysJson(headers: IncomingHttpHeaders): boolean {
  return jsonTypes.has(headers['content-type'])
}

/** Whether the caller is a browser that navigates. */
export function wantsHtml({ accept }: IncomingHttpHeaders): boolean {
  return accept?.includes('text/html') ?? false
}
