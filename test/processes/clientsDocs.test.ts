import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, print } from 'graphql'
import type { Subscription } from 'nth-counters/client'
import { createElement, type ReactNode } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it, onTestFinished, vi } from 'vitest'
import { CLIENTS, type Example, startExamples, TITLE } from '../support/client/clientExamples.ts'
import { ARTIFACTS } from '../support/client/clientsPage.ts'
import { holdAnswers } from '../support/client/heldAnswers.ts'
import { RELAY_OPERATIONS } from '../support/client/relayOperations.mjs'

const PAGE = join(import.meta.dirname, '../../docs/clients.md')

it('clients.md: reports each buyer their own number, once for each click, as the page shows it', async () => {
  const { load, ask } = await startExamples()
  const { buy } = await load<{ buy(name: string): Promise<string> }>('buy')
  const { lose } = holdAnswers()
  lose()
  expect(await buy(TITLE)).toBe('You are buyer 1, number 1 this month.')
  // Two clicks before there is a result.
  expect(await Promise.all([buy(TITLE), buy(TITLE)])).toEqual(
    Array(2).fill('You are buyer 2, number 2 this month.'),
  )
  expect(await ask(`{ counter(name: "${TITLE}", namespace: "booksales") { value } }`)).toEqual({
    counter: { value: 2 },
  })
})

it('clients.md: shows the live numbers of several counters, as the page does it', async () => {
  const { load, ask } = await startExamples()
  const { watch } = await load<{
    watch(names: string[], show: (sold: { counters: { value: number }[] }) => void): Subscription
  }>('live')
  const shown: number[][] = []
  const { stop } = watch([TITLE, 'Red Horse Hill'], ({ counters }) =>
    shown.push(counters.map(({ value }) => value)),
  )
  onTestFinished(stop)
  await expect.poll(() => shown).toEqual([[0, 0]])
  await ask('mutation { increment(name: "Red Horse Hill", namespace: "booksales") { value } }')
  await expect
    .poll(() => shown)
    .toEqual([
      [0, 0],
      [0, 1],
    ])
})

/** Where each client has the code of an error, as the page says. */
async function codePlaces(): Promise<Map<string, (error: unknown) => unknown>> {
  const rows = (await readFile(PAGE, 'utf8')).matchAll(/^\| ([\w\s-]+) \| `(errors?)([^`]+)`/gm)
  return new Map(
    [...rows].map(
      ([, client = '', name, path]) => [client, new Function(name ?? '', `return ${name}${path}`)] as const,
    ) as [string, (error: unknown) => unknown][],
  )
}

it.each(Object.entries(CLIENTS))(
  'clients.md, %s: reports each buyer their own number, once for each key, or a code',
  async (client, file) => {
    const { load, ask } = await startExamples()
    const { buy } = await load<Example>(file)
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    expect(await buy(TITLE, 'second')).toMatchObject({ value: 2, thisMonth: 2 })
    expect(await buy(TITLE, 'first')).toMatchObject({ value: 1, thisMonth: 1 })
    const { lose } = holdAnswers()
    lose()
    expect(await buy(TITLE, 'third')).toMatchObject({ value: 3, thisMonth: 3 })
    await ask(
      `mutation { defineCounter(name: "${TITLE}", namespace: "booksales", definition: { maxValue: 3 }) { id } }`,
    )
    const codeOf = (await codePlaces()).get(client) ?? (({ code }) => code)
    const failure = (key: string) =>
      buy(TITLE, key).then(
        () => undefined,
        (error) => error,
      )
    expect(codeOf(await failure('fourth'))).toBe('LIMIT_REACHED')
    const extensions = { code: 'UNAVAILABLE', retryable: true, retryAfterMs: 60_000 }
    const errors = [{ message: 'Nth is shutting down.', extensions }]
    // As a server that shuts down, before anything is executed.
    vi.stubGlobal('fetch', async () => Response.json({ errors }, { status: 503 }))
    expect(codeOf(await failure('fourth'))).toBe('UNAVAILABLE')
    // Later it would be tried again.
    const later = { status: 502, headers: { 'retry-after': '60' } }
    vi.stubGlobal('fetch', async () => new Response('<p>Bad gateway</p>', later))
    const error = await failure('fifth')
    expect(error?.networkError ?? error).toMatchObject({
      name: 'NthError',
      code: 'NO_ANSWER',
      isOutcomeUnknown: true,
    })
  },
)

it('clients.md: gives a click after a lost answer the same number with any client, as the page does it', async () => {
  const { load, ask } = await startExamples()
  const { clickHandler } = await load<{ clickHandler(name: string): () => Promise<unknown> }>('click')
  const onClick = clickHandler(TITLE)
  const { fetch } = globalThis
  vi.stubGlobal('fetch', async (...request: Parameters<typeof fetch>) => {
    await fetch(...request)
    return new Response('<p>Bad gateway</p>', { status: 502, headers: { 'retry-after': '60' } })
  })
  onTestFinished(() => void vi.unstubAllGlobals())
  await expect(onClick()).rejects.toMatchObject({ name: 'NthError', isOutcomeUnknown: true })
  vi.unstubAllGlobals()
  expect(await onClick()).toMatchObject({ value: 1 })
  expect(await onClick()).toMatchObject({ value: 2 })
  expect(await ask(`{ counter(name: "${TITLE}", namespace: "booksales") { value } }`)).toEqual({
    counter: { value: 2 },
  })
})

it('clients.md: renders a book in React before there is a number, as the page does it', async () => {
  const { load } = await startExamples()
  const { Book } = await load<{ Book(book: { name: string }): ReactNode }>('Book')
  expect(renderToStaticMarkup(createElement(Book, { name: TITLE }))).toBe(
    '<p>… sold <button>Buy</button> </p>',
  )
})

it('clients.md: has what relay-compiler makes of its documents (npm run relay)', async () => {
  const documents = [...RELAY_OPERATIONS.matchAll(/graphql`([^`]+)`/g)].map(([, text = '']) => text)
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
