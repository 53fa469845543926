import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type ErrorCode, errorCodes } from '../../src/rules/errors.ts'
import type { Answer, ReceivedError } from '../support/client/client.ts'
import { as, startProtected } from '../support/client/keys.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { type Service, startService } from '../support/server/service.ts'

const PAGE = join(import.meta.dirname, '../../docs/errors.md')

/** Documents that are refused with these codes. */
const DOCUMENTS: Partial<Record<ErrorCode, string>> = {
  BAD_USER_INPUT:
    'mutation { defineSequence(name: "s", definition: { format: "R-{number}" }) { name } nextInSequence(name: "s", count: 0) { value } }',
  NOT_FOUND:
    'mutation { confirmReservation(id: "UmVzZXJ2YXRpb246MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA") { state } }',
  LIMIT_REACHED:
    'mutation { defineCounter(name: "c", definition: { maxValue: 1 }) { name } incrementMany(changes: [{ name: "a" }, { name: "c", delta: 2 }]) { value } }',
  OUT_OF_RANGE:
    'mutation { reset(name: "b", to: 9007199254740991) { value } increment(name: "b") { value } }',
  CONFLICT: 'mutation { reset(name: "f", to: 1, expectedValue: 2) { value } }',
  SEQUENCE_EXHAUSTED:
    'mutation { defineSequence(name: "e", definition: { maxValue: 1 }) { name } a: nextInSequence(name: "e") { value } b: nextInSequence(name: "e") { value } }',
  IDEMPOTENCY_KEY_REUSED:
    'mutation { a: reset(name: "k", to: 1, idempotencyKey: "k") { value } b: reset(name: "k", to: 2, idempotencyKey: "k") { value } }',
  GRAPHQL_PARSE_FAILED: '{',
  GRAPHQL_VALIDATION_FAILED: '{ nope }',
  OPERATION_RESOLUTION_FAILURE: 'query A { __typename } query B { __typename }',
}

/** Other requests that are refused with these codes. */
const REQUESTS: Partial<Record<ErrorCode, (service: Service) => Promise<Answer>>> = {
  RESERVATION_CLOSED: async ({ send, ask }) => {
    const reserve =
      'mutation { defineSequence(name: "g", definition: { gapless: true }) { name } reserveInSequence(name: "g") { id } }'
    const { id } = (await ask(reserve)).reserveInSequence
    return send(
      'mutation($id: ID!) { releaseReservation(id: $id) { id } confirmReservation(id: $id) { id } }',
      {
        id,
      },
    )
  },
  INTERNAL_SERVER_ERROR: async ({ ask, send, target }) => {
    await ask('mutation { defineCounter(name: "moon", definition: { timeZone: "Europe/Berlin" }) { name } }')
    await query(target, "update counter set periods = 'FORTNIGHT', version = version + 1 where name = 'moon'")
    return send('mutation { increment(name: "moon") { value } }')
  },
  DOCUMENT_NOT_TRUSTED: async () => (await startService({ trustedOnly: true })).send('{ __typename }'),
  UNAUTHENTICATED: (service) => as(service, 'nth_mistyped').send('{ __typename }'),
  BAD_REQUEST: async ({ post }) => (await post('{}')).body,
  REQUEST_ENTITY_TOO_LARGE: async ({ post }) => (await post(' '.repeat(1_000_001))).body,
  PERSISTED_QUERY_NOT_FOUND: async ({ post }) => (await post(JSON.stringify(persisted()))).body,
  PERSISTED_QUERY_MISMATCH: async ({ post }) =>
    (await post(JSON.stringify({ ...persisted(), query: '{ __typename }' }))).body,
  UNAVAILABLE: () => interrupted('is cut off', /^start transaction;\nupdate fence\s+set seq/),
  OUTCOME_UNKNOWN: () => interrupted('stays unanswered', /(^|;\n)commit$/),
  FORBIDDEN: async () => {
    const { as: caller, createKey } = await startProtected()
    const { secret } = await createKey([{ scopes: ['ADD'] }])
    return caller(secret).send('mutation { incrementBy(name: "c", delta: 2) { value } }')
  },
  RATE_LIMITED: async () => {
    const { send } = await startService({ access: { anonymous: ['ADD'], anonymousPerMinute: 1 } })
    return send('mutation { a: increment(name: "c") { value } b: increment(name: "d") { value } }')
  },
}

function persisted(): object {
  return { extensions: { persistedQuery: { version: 1, sha256Hash: '0'.repeat(64) } } }
}

/** A change with a key whose statement is interrupted, and each look at its outcome, until its deadline. */
async function interrupted(delivery: 'is cut off' | 'stays unanswered', pattern: RegExp): Promise<Answer> {
  let isInterrupting = false
  const target = await startProxy(await freshDatabase(), (statement) => {
    if (!isInterrupting) return 'passes'
    if (pattern.test(statement)) return delivery
    return /update fence set epoch/.test(statement) ? 'is cut off' : 'passes'
  })
  const { ask, send } = await startService({ target, writeTimeoutMs: 1000 })
  await ask('mutation { increment(name: "c") { value } }')
  isInterrupting = true
  return send('mutation { increment(name: "c", idempotencyKey: "k") { value } }')
}

/** The rows of the page, by their codes. */
async function rows(): Promise<Map<string, string>> {
  const page = await readFile(PAGE, 'utf8')
  const lines = page.matchAll(/^\| \[?`([A-Z_]+)`(?:\]\(#\w+\))? \| (.*) \|$/gm)
  return new Map([...lines].map(([, code = '', text = '']) => [code, text]))
}

it('error codes: have a row each on their page', async () => {
  expect([...(await rows()).keys()].toSorted()).toEqual(Object.keys(errorCodes).toSorted())
})

it('error codes: come with the details that their row names', async () => {
  const service = await startService()
  const described = await rows()
  for (const code of Object.keys(errorCodes) as ErrorCode[]) {
    const document = DOCUMENTS[code]
    const answer = document === undefined ? REQUESTS[code]?.(service) : service.send(document)
    const { errors = [] } = (await answer) ?? {}
    const text = described.get(code) ?? ''
    expect([code, errors.map(({ extensions }) => extensions.code)]).toEqual([code, errors.map(() => code)])
    expect([code, errors.length]).not.toEqual([code, 0])
    const details = errors.flatMap(detailsOf)
    expect([code, details.filter((name) => !text.includes(`\`${name}\``))]).toEqual([code, []])
    // The change had a key.
    const isRetryable = /\*\*Retryable(?: with a key or a subject)?:\*\*/.test(text)
    for (const { extensions } of errors) {
      expect([code, extensions.retryable === true]).toEqual([code, isRetryable])
    }
  }
})

function detailsOf({ extensions }: ReceivedError): string[] {
  const { code: _, retryable: __, ...details } = extensions
  return Object.keys(details)
}
