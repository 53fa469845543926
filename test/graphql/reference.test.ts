import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  errorsPage,
  type FieldError,
  type FieldPage,
  fieldPages,
  indexOf,
  limitsPage,
  pageOf,
  typesPage,
} from '../../scripts/reference.ts'
import type { ErrorCode } from '../../src/rules/errors.ts'
import type { Answer } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { query } from '../support/database/database.ts'
import { type Service, startService } from '../support/server/service.ts'

const DOCS = join(import.meta.dirname, '../../docs')

/** How each field is called in the situations below, on the counter `c` or the sequence `s`. */
const CALLS = {
  increment: 'increment(name: "c", namespace: $ns, idempotencyKey: "k") { value }',
  uncount: 'uncount(name: "c", subject: "ann", namespace: $ns, idempotencyKey: "k") { value }',
  incrementBy: 'incrementBy(name: "c", delta: 1, namespace: $ns, idempotencyKey: "k") { value }',
  incrementMany: 'incrementMany(changes: [{ name: "c" }], namespace: $ns, idempotencyKey: "k") { value }',
  reset: 'reset(name: "c", to: 7, expectedValue: 0, namespace: $ns, idempotencyKey: "k") { value }',
  defineCounter: 'defineCounter(name: "c", definition: { maxValue: 1 }, namespace: $ns) { name }',
  nextInSequence: 'nextInSequence(name: "s", namespace: $ns, idempotencyKey: "k") { value }',
  restartSequence:
    'restartSequence(name: "s", nextValue: 7, namespace: $ns, idempotencyKey: "k") { nextValue }',
  reserveInSequence: 'reserveInSequence(name: "s", namespace: $ns, idempotencyKey: "k") { id }',
  confirmReservation: 'confirmReservation(id: $id) { state }',
  releaseReservation: 'releaseReservation(id: $id) { state }',
  hold: 'hold(changes: [{ name: "c" }], namespace: $ns, idempotencyKey: "k") { id }',
  confirmHold: 'confirmHold(id: $id, changes: [{ name: "c", delta: 2 }]) { value }',
  extendHold: 'extendHold(id: $id) { state }',
  releaseHold: 'releaseHold(id: $id) { state }',
  revokeApiKey: `revokeApiKey(id: "${Buffer.from('ApiKey:999').toString('base64url')}") { label }`,
  removeTrustedDocument: 'removeTrustedDocument(documentId: "none") { text }',
}

type Name = keyof typeof CALLS

const GAPLESS = 'defineSequence(name: "s", definition: { gapless: true }, namespace: $ns) { name }'
const RESERVE = `${GAPLESS} first: reserveInSequence(name: "s", namespace: $ns) { id }`
const HOLD = 'first: hold(changes: [{ name: "c" }], namespace: $ns) { id }'

/** What is called before. */
const FIRST: Partial<Record<Name, string>> = {
  reserveInSequence: GAPLESS,
  confirmReservation: RESERVE,
  releaseReservation: RESERVE,
  confirmHold: HOLD,
  extendHold: HOLD,
  releaseHold: HOLD,
}

const ADDING: Name[] = ['increment', 'incrementBy', 'incrementMany']
const KEYED: Name[] = [
  ...ADDING,
  'uncount',
  'reset',
  'nextInSequence',
  'restartSequence',
  'reserveInSequence',
  'hold',
]
const HOLDS: Name[] = ['confirmHold', 'extendHold', 'releaseHold']
const MAX = Number.MAX_SAFE_INTEGER

/** Situations in which fields fail with a code that depends on them: a mutation that brings it about, or a statement of SQL. */
const SITUATIONS: [code: ErrorCode, fields: Name[], before: string][] = [
  [
    'IDEMPOTENCY_KEY_REUSED',
    KEYED,
    'increment(name: "other", namespace: $ns, idempotencyKey: "k") { value }',
  ],
  [
    'LIMIT_REACHED',
    [...ADDING, 'reset', 'hold'],
    'defineCounter(name: "c", definition: { maxValue: 0 }, namespace: $ns) { name }',
  ],
  [
    'LIMIT_REACHED',
    ['confirmHold'],
    'defineCounter(name: "c", definition: { maxValue: 1 }, namespace: $ns) { name }',
  ],
  ['LIMIT_REACHED', ['defineCounter'], 'reset(name: "c", to: 2, namespace: $ns) { value }'],
  [
    'LIMIT_REACHED',
    ['restartSequence'],
    'defineSequence(name: "s", definition: { maxValue: 5 }, namespace: $ns) { name }',
  ],
  ['OUT_OF_RANGE', [...ADDING, 'hold'], `reset(name: "c", to: ${MAX}, namespace: $ns) { value }`],
  ['OUT_OF_RANGE', ['confirmHold'], `incrementBy(name: "c", delta: ${MAX}, namespace: $ns) { value }`],
  [
    'OUT_OF_RANGE',
    ['nextInSequence'],
    `defineSequence(name: "s", definition: { startValue: ${MAX} }, namespace: $ns) { name } nextInSequence(name: "s", namespace: $ns) { value }`,
  ],
  [
    'OUT_OF_RANGE',
    ['reserveInSequence'],
    `defineSequence(name: "s", definition: { startValue: ${MAX}, gapless: true }, namespace: $ns) { name } reserveInSequence(name: "s", namespace: $ns) { id }`,
  ],
  ['CONFLICT', ['reset'], 'increment(name: "c", namespace: $ns) { value }'],
  ['CONFLICT', [...ADDING, 'uncount', 'defineCounter', 'hold', ...HOLDS], 'delete from counter_value'],
  ['CONFLICT', ['nextInSequence', 'reserveInSequence'], 'delete from sequence_value'],
  [
    'SEQUENCE_EXHAUSTED',
    ['nextInSequence'],
    'defineSequence(name: "s", definition: { maxValue: 1 }, namespace: $ns) { name } nextInSequence(name: "s", namespace: $ns) { value }',
  ],
  [
    'SEQUENCE_EXHAUSTED',
    ['reserveInSequence'],
    'defineSequence(name: "s", definition: { maxValue: 1, gapless: true }, namespace: $ns) { name } reserveInSequence(name: "s", namespace: $ns) { id }',
  ],
  [
    'NOT_FOUND',
    ['reserveInSequence'],
    `reserveInSequence(name: "s", namespace: $ns, idempotencyKey: "k") { id } deleteSequence(name: "s", namespace: $ns) { name }`,
  ],
  [
    'NOT_FOUND',
    ['confirmReservation', 'releaseReservation'],
    'deleteSequence(name: "s", namespace: $ns) { name }',
  ],
  [
    'NOT_FOUND',
    ['hold'],
    'hold(changes: [{ name: "c" }], namespace: $ns, idempotencyKey: "k") { id } deleteCounter(name: "c", namespace: $ns) { value }',
  ],
  ['NOT_FOUND', HOLDS, 'deleteCounter(name: "c", namespace: $ns) { value }'],
  ['NOT_FOUND', ['revokeApiKey', 'removeTrustedDocument'], ''],
  ['RESERVATION_CLOSED', ['confirmReservation'], 'releaseReservation(id: $id) { id }'],
  ['RESERVATION_CLOSED', ['releaseReservation'], 'confirmReservation(id: $id) { id }'],
  ['RESERVATION_CLOSED', ['confirmHold', 'extendHold'], 'releaseHold(id: $id) { id }'],
  ['RESERVATION_CLOSED', ['releaseHold'], 'confirmHold(id: $id) { value }'],
]

/** The errors of each field in these situations, as a server sends them. */
async function errorsOfFields({ send, target }: Service): Promise<Map<string, FieldError[]>> {
  const errors = new Map<string, FieldError[]>()
  for (const [index, [code, fields, before]] of SITUATIONS.entries()) {
    for (const name of fields) {
      const call = CALLS[name]
      const isSql = before.startsWith('delete from ')
      const isFirst = isSql && !call.includes('$id')
      const first = [FIRST[name], isFirst && call.replace(', idempotencyKey: "k"', '')]
        .filter(Boolean)
        .join(' ')
      const variables = { ns: `${name}-${index}`, id: '' }
      const run = async (fields: string) => {
        const uses = ['$ns: String!', '$id: ID!'].filter((use) => fields.includes(use.split(':')[0] ?? ''))
        const head = uses.length > 0 ? `(${uses.join(', ')})` : ''
        return send(`mutation${head} { ${fields} }`, variables)
      }
      const prepared = first ? await run(first) : undefined
      variables.id = prepared?.data.first?.id ?? ''
      if (isSql) await query(target, before)
      const answer = isSql || before === '' ? undefined : await run(before)
      const { errors: [error] = [] } = await run(call)
      expect
        .soft([name, before, prepared?.errors, answer?.errors])
        .toEqual([name, before, undefined, undefined])
      expect
        .soft([name, before, error?.path?.[0], error?.extensions.code])
        .toEqual([name, before, name, code])
      const known = errors.get(name) ?? []
      if (known.some((other) => other.code === code)) continue
      errors.set(name, [...known, { code, message: error?.message ?? '' }])
    }
  }
  return errors
}

const OPERATION = /^```graphql\n([\s\S]*?)\n```\n(?:\n```json\n([\s\S]*?)\n```\n)?/gm
const RESPONSE = /\n```json\n\{\s*"(?:data|errors)"[\s\S]*?\n```\n/g
/** What is random: the ids of reservations, holds and keys, and secrets. The page has the beginning of each. */
const RANDOM = /\b(UmVzZXJ2YXRpb246|SG9sZDo|QXBpS2V5|nth_)([\w-]+)/g

/** The example of a page, with the responses of a server to its operations. */
async function exampleOf(text: string, { url, send }: Service): Promise<string> {
  const [, example = ''] = `\n${text}`.replaceAll(RESPONSE, '').split('\n## Example\n')
  const sent = new Map<string, string>()
  let written = example
  for (const [whole, operation = '', variables = '{}'] of example.matchAll(OPERATION)) {
    const values = JSON.parse(variables.replace(/(\w+)…/g, (_, start) => sent.get(start) ?? start))
    const answer: Answer = operation.startsWith('subscription')
      ? { data: await (await subscribe(url, operation, { variables: values })).data() }
      : await send(operation, values)
    const line = JSON.stringify(answer)
    for (const [text, start = ''] of line.matchAll(RANDOM)) sent.set(start, text)
    const json = (line.length > 110 ? JSON.stringify(answer, null, 2) : line).replace(RANDOM, '$1…')
    written = written.replace(whole, () => `${whole}\n\`\`\`json\n${json}\n\`\`\`\n`)
  }
  return written
}

const read = (file: string) => readFile(join(DOCS, file), 'utf8').catch(() => '')

it('docs/reference, errors.md and limits.md: say what the schema, the constants and a server do (npm run schema)', async () => {
  const service = await startService()
  const errors = await errorsOfFields(service)
  const pages = fieldPages.map((page: FieldPage) => [`reference/${page.name}.md`, page] as const)
  for (const [file, page] of pages) {
    const example = await exampleOf(await read(file), service)
    expect([file, example]).toEqual([file, expect.stringMatching(/"data": ?\{/)])
    await expect(pageOf(page, errors.get(page.name) ?? [], example)).toMatchFileSnapshot(join(DOCS, file))
  }
  const others = {
    'reference/README.md': indexOf(await read('reference/README.md')),
    'reference/types.md': typesPage(),
    'errors.md': errorsPage(await read('errors.md'), errors),
    'limits.md': limitsPage(await read('limits.md')),
  }
  for (const [file, text] of Object.entries(others)) await expect(text).toMatchFileSnapshot(join(DOCS, file))
  const files = [...pages.map(([file]) => file), ...Object.keys(others)].filter((file) => file.includes('/'))
  expect((await readdir(join(DOCS, 'reference'))).map((file) => `reference/${file}`).toSorted()).toEqual(
    files.toSorted(),
  )
})
