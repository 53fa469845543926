import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { ErrorCode } from '../../src/rules/errors.ts'
import type { Answer, ReceivedError } from '../support/client/client.ts'
import { as, startProtected } from '../support/client/keys.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { type Service, startService } from '../support/server/service.ts'

const PAGE = join(import.meta.dirname, '../../docs/errors.md')

/** The codes that depend on the field: test/graphql/reference.test.ts. */
type CodeOfFields =
  | 'NOT_FOUND'
  | 'LIMIT_REACHED'
  | 'OUT_OF_RANGE'
  | 'CONFLICT'
  | 'SEQUENCE_EXHAUSTED'
  | 'RESERVATION_CLOSED'
  | 'IDEMPOTENCY_KEY_REUSED'

/** Requests that are refused with the other codes: operations, or bodies with headers of their own. */
const REQUESTS: Record<Exclude<ErrorCode, CodeOfFields>, (service: Service) => Promise<Answer>> = {
  BAD_USER_INPUT: ({ send }) =>
    send(
      'mutation { defineSequence(name: "s", definition: { format: "R-{number}" }) { name } nextInSequence(name: "s", count: 0) { value } }',
    ),
  INTERNAL_SERVER_ERROR: async ({ ask, send, target }) => {
    await ask('mutation { defineCounter(name: "moon", definition: { timeZone: "Europe/Berlin" }) { name } }')
    await query(target, "update counter set periods = 'FORTNIGHT', version = version + 1 where name = 'moon'")
    return send('mutation { increment(name: "moon") { value } }')
  },
  DOCUMENT_NOT_TRUSTED: async () => (await startService({ trustedOnly: true })).send('{ __typename }'),
  UNAUTHENTICATED: (service) => as(service, 'nth_mistyped').send('{ __typename }'),
  BAD_REQUEST: async ({ post }) => (await post('{}')).body,
  REQUEST_ENTITY_TOO_LARGE: async ({ post }) => (await post(' '.repeat(1_000_001))).body,
  GRAPHQL_PARSE_FAILED: ({ send }) => send('{'),
  GRAPHQL_VALIDATION_FAILED: ({ send }) => send('{ nope }'),
  OPERATION_RESOLUTION_FAILURE: ({ send }) => send('query A { __typename } query B { __typename }'),
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

/** The sections of the page, by their codes. */
async function sections(): Promise<Map<string, string>> {
  const [, ...parts] = (await readFile(PAGE, 'utf8')).split(/^### /m)
  return new Map(parts.map((part) => [part.split('\n')[0] ?? '', part]))
}

it('error codes: come with the details that their sections name', async () => {
  const service = await startService()
  const described = await sections()
  for (const [code, request] of Object.entries(REQUESTS)) {
    const { errors = [] } = await request(service)
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
