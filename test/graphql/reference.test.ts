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
import { FULL } from '../../src/commit/transaction.ts'
import type { ErrorCode } from '../../src/rules/errors.ts'
import type { Answer } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { query } from '../support/database/database.ts'
import { type Service, startService } from '../support/server/service.ts'

const DOCS = join(import.meta.dirname, '../../docs')

/** How each field is called in the situations below. What begins with `@` stands for arguments. */
const CALLS: Record<string, string> = {
  increment: 'increment(@c, @key) { value }',
  uncount: 'uncount(@c, subject: "ann", @key) { value }',
  incrementBy: 'incrementBy(@c, delta: 1, @key) { value }',
  incrementMany: 'incrementMany(@cart, @key) { value }',
  reset: 'reset(@c, to: 7, expectedValue: 0, @key) { value }',
  defineCounter: 'defineCounter(@c, definition: { maxValue: 1 }) { name }',
  nextInSequence: 'nextInSequence(@s, @key) { value }',
  restartSequence: 'restartSequence(@s, nextValue: 7, @key) { nextValue }',
  reserveInSequence: 'reserveInSequence(@s, @key) { id }',
  confirmReservation: 'confirmReservation(id: $id) { state }',
  releaseReservation: 'releaseReservation(id: $id) { state }',
  hold: 'hold(@cart, @key) { id }',
  confirmHold: 'confirmHold(id: $id, changes: [{ name: "c", delta: 2 }]) { value }',
  extendHold: 'extendHold(id: $id) { state }',
  releaseHold: 'releaseHold(id: $id) { state }',
  revokeApiKey: `revokeApiKey(id: "${Buffer.from('ApiKey:999').toString('base64url')}") { label }`,
  removeTrustedDocument: 'removeTrustedDocument(documentId: "none") { text }',
}

const ARGUMENTS: Record<string, string> = {
  '@c': 'name: "c", namespace: $ns',
  '@s': 'name: "s", namespace: $ns',
  '@cart': 'changes: [{ name: "c" }], namespace: $ns',
  '@key': 'idempotencyKey: "k"',
}

const GAPLESS = 'defineSequence(@s, definition: { gapless: true }) { name }'
const ADDING = 'increment incrementBy incrementMany'
const HOLDS = 'confirmHold extendHold releaseHold'
const KEYED = `${ADDING} uncount reset nextInSequence restartSequence reserveInSequence hold`
const MAX = Number.MAX_SAFE_INTEGER

/** Situations in which fields fail with a code: the code, the fields, and what brings it about, which may be SQL. */
const SITUATIONS = `
IDEMPOTENCY_KEY_REUSED | ${KEYED} | increment(name: "other", namespace: $ns, @key) { value }
LIMIT_REACHED | ${ADDING} reset hold | defineCounter(@c, definition: { maxValue: 0 }) { name }
LIMIT_REACHED | confirmHold | defineCounter(@c, definition: { maxValue: 1 }) { name }
LIMIT_REACHED | defineCounter | reset(@c, to: 2) { value }
LIMIT_REACHED | restartSequence | defineSequence(@s, definition: { maxValue: 5 }) { name }
OUT_OF_RANGE | ${ADDING} hold | reset(@c, to: ${MAX}) { value }
OUT_OF_RANGE | confirmHold | incrementBy(@c, delta: ${MAX}) { value }
OUT_OF_RANGE | nextInSequence | defineSequence(@s, definition: { startValue: ${MAX} }) { name } nextInSequence(@s) { value }
OUT_OF_RANGE | reserveInSequence | defineSequence(@s, definition: { startValue: ${MAX} }) { name } reserveInSequence(@s) { id }
CONFLICT | reset | increment(@c) { value }
CONFLICT | ${ADDING} uncount defineCounter hold ${HOLDS} | delete from counter_value
CONFLICT | nextInSequence reserveInSequence | delete from sequence_value
SEQUENCE_EXHAUSTED | nextInSequence | defineSequence(@s, definition: { maxValue: 1 }) { name } nextInSequence(@s) { value }
SEQUENCE_EXHAUSTED | reserveInSequence | defineSequence(@s, definition: { maxValue: 1 }) { name } reserveInSequence(@s) { id }
NOT_FOUND | reserveInSequence | reserveInSequence(@s, @key) { id } deleteSequence(@s) { name }
NOT_FOUND | confirmReservation releaseReservation | deleteSequence(@s) { name }
NOT_FOUND | hold | hold(@cart, @key) { id } deleteCounter(@c) { value }
NOT_FOUND | ${HOLDS} | deleteCounter(@c) { value }
NOT_FOUND | revokeApiKey removeTrustedDocument | reset(@c) { value }
RESERVATION_CLOSED | confirmReservation | releaseReservation(id: $id) { id }
RESERVATION_CLOSED | releaseReservation | confirmReservation(id: $id) { id }
RESERVATION_CLOSED | confirmHold extendHold | releaseHold(id: $id) { id }
RESERVATION_CLOSED | releaseHold | confirmHold(id: $id) { value }
`

/** What is called before that: what makes the id that a field takes, or the row that SQL then deletes. */
function firstCall(name: string, isSql: boolean): string {
  const call = CALLS[name] ?? ''
  if (name.endsWith('Reservation')) return `${GAPLESS} first: reserveInSequence(@s) { id }`
  if (call.includes('$id')) return 'first: hold(@cart) { id }'
  return `${name === 'reserveInSequence' ? GAPLESS : ''} ${isSql ? call.replace(', @key', '') : ''}`.trim()
}

/** The errors of each field in these situations, as a server sends them, and the codes with each of their details. */
async function errorsOfFields({ ask, send, target }: Service) {
  // This takes two hours: test/repository/periodDefinitions.test.ts.
  const errors = new Map<string, FieldError[]>([['defineCounter', [{ code: 'OUT_OF_RANGE', message: FULL }]]])
  const details = new Set<string>()
  for (const [index, row] of SITUATIONS.trim().split('\n').entries()) {
    const [code = '', names = '', before = ''] = row.split(' | ')
    const isSql = before.startsWith('delete from ')
    for (const name of names.split(' ')) {
      let id = ''
      const mutation = (fields: string) =>
        `mutation { ${fields.replace(/@\w+/g, (word) => ARGUMENTS[word] ?? word)} }`
          .replaceAll('$ns', `"${name}-${index}"`)
          .replaceAll('$id', `"${id}"`)
      const first = firstCall(name, isSql)
      if (first) id = (await ask(mutation(first))).first?.id
      if (isSql) await query(target, before)
      else await ask(mutation(before))
      const { errors: [error] = [] } = await send(mutation(CALLS[name] ?? ''))
      expect([row, error?.path, error?.extensions.code]).toEqual([row, [name], code])
      const { message = '', extensions } = error ?? {}
      for (const detail of Object.keys(extensions ?? {})) details.add(`${code}: ${detail}`)
      const known = errors.get(name) ?? []
      // The code was compared.
      if (!known.some((other) => other.code === code))
        errors.set(name, [...known, { code: code as ErrorCode, message }])
    }
  }
  return { errors, details: [...details] }
}

/** An operation of an example, and its variables if it has some. */
const OPERATION = /^```graphql\n([\s\S]*?)\n```\n(?:\nVariables:\n\n```json\n([\s\S]*?)\n```\n)?/gm
/** What is random: the ids of reservations, holds and keys, and secrets. The page has the beginning of each. */
const RANDOM = /\b(UmVzZXJ2YXRpb246|SG9sZD|QXBpS2V5|nth_)([\w-]+)/g

/** JSON in which what fits on a line is on one. */
function printed(value: unknown, indent = ''): string {
  const line = JSON.stringify(value)
  if (indent.length + line.length <= 90 || typeof value !== 'object' || value === null) return line
  const inner = `${indent}  `
  const nameOf = (key: string) => (Array.isArray(value) ? '' : `"${key}":`)
  const parts = Object.entries(value).map(([key, part]) => `${inner}${nameOf(key)}${printed(part, inner)}`)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${parts.join(',\n')}\n${indent}${close}`
}

/** The example of a page: its operations, with the responses of a server. */
async function exampleOf(page: string, { url, send }: Service): Promise<string> {
  const sent = new Map<string, string>()
  const parts: string[] = []
  for (const [whole, operation = '', variables = '{}'] of page.matchAll(OPERATION)) {
    const values = JSON.parse(variables.replace(/(\w+)…/g, (_, start) => sent.get(start) ?? start))
    const answer: Answer = operation.startsWith('subscription')
      ? { data: await (await subscribe(url, operation, { variables: values })).data() }
      : await send(operation, values)
    const line = JSON.stringify(answer)
    for (const [text, start = ''] of line.matchAll(RANDOM)) sent.set(start, text)
    const response = printed(JSON.parse(line.replace(RANDOM, '$1…')))
    parts.push(`${whole}\nResponse:\n\n\`\`\`json\n${response}\n\`\`\`\n`)
  }
  return parts.join('\n')
}

const read = (file: string) => readFile(join(DOCS, file), 'utf8').catch(() => '')

it('docs/reference, errors.md and limits.md: say what the schema, the constants and a server do (npm run schema)', async () => {
  const service = await startService()
  const { errors, details } = await errorsOfFields(service)
  const pages = fieldPages.map((page: FieldPage) => [`reference/${page.name}.md`, page] as const)
  for (const [file, page] of pages) {
    const example = await exampleOf(await read(file), service)
    expect([file, example]).toEqual([file, expect.stringMatching(/^(?!.*"errors").*"data": ?\{/s)])
    await expect(pageOf(page, errors.get(page.name) ?? [], example)).toMatchFileSnapshot(join(DOCS, file))
  }
  const codes = errorsPage(await read('errors.md'), errors)
  const others = {
    'reference/README.md': indexOf(await read('reference/README.md')),
    'reference/types.md': typesPage(),
    'errors.md': codes,
    'limits.md': limitsPage(await read('limits.md')),
  }
  for (const [file, text] of Object.entries(others)) await expect(text).toMatchFileSnapshot(join(DOCS, file))
  const files = [...pages.map(([file]) => file), ...Object.keys(others)]
  const present = (await readdir(join(DOCS, 'reference'))).map((file) => `reference/${file}`)
  expect(present.filter((file) => !files.includes(file))).toEqual([])
  // What an error has beside its code is explained in the section of the code.
  const explained = new Map(codes.split(/^### /m).map((section) => [section.split('\n')[0] ?? '', section]))
  const silent = details.filter((each) => {
    const [code = '', detail] = each.split(': ')
    return detail !== 'code' && !explained.get(code)?.includes(`\`${detail}\``)
  })
  expect(silent).toEqual([])
})
