import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildSchema, isEnumType, parse, print } from 'graphql'
import { expect, it, onTestFinished, vi } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { CLIENTS, type Example, examples, startExamples, TITLE } from '../support/client/clientExamples.ts'
import { ARTIFACTS, importable } from '../support/client/clientsPage.ts'
import { holdAnswers } from '../support/client/heldAnswers.ts'

const SCHEMA = join(import.meta.dirname, '../../schema/schema.graphql')
it.each(CLIENTS)(
  'reports each buyer their own number with %s, once for each key, or a code',
  async (name) => {
    const { load, ask } = await startExamples()
    const { buy } = await load<Example>(name)
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    expect(await buy(TITLE, 'second')).toMatchObject({ value: 2, thisMonth: 2 })
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    await ask(
      `mutation { defineCounter(name: "${TITLE}", namespace: "booksales", definition: { maxValue: 2 }) { id } }`,
    )
    expect(await buy(TITLE, 'third')).toBe('LIMIT_REACHED')
  },
)

it('counts a click once, also when its answer is lost', async () => {
  const { load, ask } = await startExamples()
  const { onClick } = await load<{ onClick(name: string): Promise<unknown> }>('click')
  const { lose } = holdAnswers()
  lose()
  expect(await onClick(TITLE)).toMatchObject({ value: 1 })
  expect(await onClick(TITLE)).toMatchObject({ value: 2 })
  expect(await ask(`{ counter(name: "${TITLE}", namespace: "booksales") { value } }`)).toEqual({
    counter: { value: 2 },
  })
})

/** Takes the place of `fetch`, with the answers of a server that shuts down. */
function stubUnavailable() {
  const errors = [{ message: 'Nth is shutting down.', extensions: { code: 'UNAVAILABLE' } }]
  const send = vi.fn(async () => Response.json({ errors }, { status: 503 }))
  vi.stubGlobal('fetch', send)
  onTestFinished(() => void vi.unstubAllGlobals())
  return send
}

it.each(CLIENTS)(
  'reports the code of an answer before execution with %s, and that there was none',
  async (name) => {
    const { load } = await startExamples()
    const { buy } = await load<Example>(name)
    const send = stubUnavailable()
    expect(await buy(TITLE, 'first')).toBe('UNAVAILABLE')
    send.mockRejectedValueOnce(new TypeError('fetch failed'))
    await expect(buy(TITLE, 'first')).rejects.toThrow('fetch failed')
    send.mockResolvedValueOnce(new Response('<p>Bad gateway</p>', { status: 502 }))
    await expect(buy(TITLE, 'first')).rejects.toThrow()
  },
)

it('does not say of a click that nothing was counted, when one of its answers was lost', async () => {
  const { load } = await startExamples()
  const { onClick } = await load<{ onClick(name: string): Promise<unknown> }>('click')
  const send = stubUnavailable()
  expect(await onClick(TITLE)).toBe('UNAVAILABLE')
  expect(send).toHaveBeenCalledTimes(3)
  send.mockRejectedValueOnce(new TypeError('fetch failed'))
  expect(await onClick(TITLE)).toBe('OUTCOME_UNKNOWN')
})

it('has every error code of the schema', async () => {
  const type = buildSchema(await readFile(SCHEMA, 'utf8')).getType('ErrorCode')
  const codes = isEnumType(type) ? type.getValues().map(({ name }) => name) : []
  expect(codes.length).toBeGreaterThan(10)
  expect(
    [...((await examples()).page['errors.ts'] ?? '').matchAll(/ {2}\| '(\w+)'/g)].map(([, code]) => code),
  ).toEqual(codes)
})

it('has what relay-compiler makes of its documents (npm run relay)', async () => {
  const documents = [...((await examples()).page['relay.ts'] ?? '').matchAll(/graphql`([^`]+)`/g)].map(
    ([, text = '']) => text,
  )
  expect(documents).toHaveLength(2)
  const artifacts = await Promise.all(
    (await readdir(ARTIFACTS)).map((name) => readFile(join(ARTIFACTS, name), 'utf8')),
  )
  const hashes = artifacts.map((text) => /\.hash = "(\w+)"/.exec(text)?.[1])
  const expected = documents.map((text) =>
    createHash('md5')
      .update(print(parse(text)))
      .digest('hex'),
  )
  expect(hashes.toSorted()).toEqual(expected.toSorted())
})

type Newest = <T>(result: T) => T

async function loadNewest(): Promise<Newest> {
  const load = await importable((await examples()).compiled, '')
  // The file's one export.
  return ((await load('newest.js')) as { newest: Newest }).newest
}

it('has a newest of at most 20 lines', async () => {
  const code = /export function newest[\s\S]*\n}/.exec((await examples()).page['newest.ts'] ?? '')?.[0] ?? ''
  const lines = code.split('\n').length
  expect(lines).toBeGreaterThan(10)
  expect(lines).toBeLessThanOrEqual(20)
  expect(await loadNewest()).toBeTypeOf('function')
})

it('replaces what is older, field by field, wherever it stands in a result', async () => {
  const newest = await loadNewest()
  newest({ data: { counter: { id: 'c', revision: 5, value: 50, name: 'c' } } })
  newest({ data: { changes: [{ counter: { id: 'c', revision: 7, today: 70 } }] } })
  expect(
    newest({ data: { list: [[{ id: 'c', revision: 6, value: 60, today: 60, week: 60 }], null, 'text'] } }),
  ).toEqual({ data: { list: [[{ id: 'c', revision: 7, value: 60, today: 70, week: 60 }], null, 'text'] } })
  expect(newest({ id: 'c', revision: 4, value: 40, name: 'c' })).toEqual({
    id: 'c',
    revision: 7,
    value: 60,
    name: 'c',
  })
})

it('takes the later one of equal revisions', async () => {
  const newest = await loadNewest()
  newest({ id: 'c', revision: 5, today: 3 })
  // A day is over; nobody has written since.
  expect(newest({ id: 'c', revision: 5, today: 0 })).toEqual({ id: 'c', revision: 5, today: 0 })
  expect(newest({ id: 'c', revision: 4, today: 3 })).toEqual({ id: 'c', revision: 5, today: 0 })
})

it('leaves lists and objects as they came, and what has no id or revision', async () => {
  const newest = await loadNewest()
  newest({ id: 'c', revision: 5, history: [{ value: 2 }], namespace: { id: 'n' }, timeZone: null })
  const older = {
    id: 'c',
    revision: 5,
    history: [{ value: 1 }, { value: 1 }],
    namespace: { id: 'n', name: 'n' },
  }
  expect(newest({ ...older, revision: 4, timeZone: 'UTC' })).toEqual({ ...older, timeZone: null })
  newest({ id: 'r', value: 2 })
  expect(newest({ id: 'r', value: 1 })).toEqual({ id: 'r', value: 1 })
  expect([newest(null), newest(1), newest({ revision: 1 })]).toEqual([null, 1, { revision: 1 }])
})

it('remembers the 10 000 objects that it saw last', async () => {
  const newest = await loadNewest()
  const see = (id: string, revision: number) => newest({ id, revision, value: revision }).value
  see('kept', 2)
  see('forgotten', 2)
  see('kept', 2)
  for (const index of upTo(9_999)) see(`other ${index}`, 1)
  expect([see('kept', 1), see('forgotten', 1)]).toEqual([2, 1])
})

/** The page's fetch, for which these responses arrive. */
async function loadFetchNewest(...responses: Response[]): Promise<typeof fetch> {
  vi.stubGlobal('fetch', async () => responses.shift())
  onTestFinished(() => void vi.unstubAllGlobals())
  const load = await importable((await examples()).compiled, '')
  // The file's one export.
  return ((await load('fetchNewest.js')) as { fetchNewest: typeof fetch }).fetchNewest
}

it('compares answers in the order in which the client reads them', async () => {
  const stateAt = (revision: number) => ({ id: 'c', revision, value: revision })
  const responses = [1, 2, 1, 3].map((revision) => Response.json(stateAt(revision)))
  const fetchNewest = await loadFetchNewest(...responses)
  const [older, newer, oldest, newest] = await Promise.all(responses.map(() => fetchNewest('')))
  expect(await newer?.json()).toEqual(stateAt(2))
  expect(await older?.json()).toEqual(stateAt(2))
  expect(JSON.parse((await newest?.text()) ?? '')).toEqual(stateAt(3))
  expect(JSON.parse((await oldest?.text()) ?? '')).toEqual(stateAt(3))
})

it('passes on what is not JSON as it is', async () => {
  const fetchNewest = await loadFetchNewest(new Response('<p>Bad gateway</p>', { status: 502 }))
  const response = await fetchNewest('')
  expect([response.status, await response.text()]).toEqual([502, '<p>Bad gateway</p>'])
})
