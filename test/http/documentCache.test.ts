import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parse } from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { compileOperation, createDocumentCache } from '../../src/http/documents.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** What remains after collections until one frees little more: code of earlier tests goes only after several. */
function heapBytes(): number {
  let before = Number.POSITIVE_INFINITY
  while (true) {
    collectGarbage()
    const { heapUsed } = process.memoryUsage()
    if (heapUsed > before - 100_000) return heapUsed
    before = heapUsed
  }
}

it('document cache: remembers refusals in little memory, which takes none from documents', () => {
  const cache = createDocumentCache(schema)
  const text = '{ __typename }'
  cache.add(text, parse(text))
  const refusal = (index: number) => ({ query: `{ n${index} }` })
  const type = 'application/json'
  const before = heapBytes()
  for (let index = 0; index < 20_000; index += 1) {
    const json = JSON.stringify({ errors: [{ message: `${index} `.repeat(20) }] })
    cache.refuse(refusal(index), type, {
      status: 200,
      headers: ['content-type', type],
      json,
      code: 'BAD_REQUEST',
    })
  }
  const taken = heapBytes() - before
  expect(taken).toBeLessThan(4_400_000)
  expect(cache.get(text)).toBeDefined()
  const remembered = Array.from({ length: 20_000 }, (_, index) => cache.refusal(refusal(index), type))
  expect(remembered.at(-1)).toMatchObject({ json: expect.stringContaining('19999') })
  expect(remembered[0]).toBeUndefined()
  expect(remembered.filter(Boolean).length).toBeGreaterThan(3_000)
})

it.each<[kind: string, times: number, textOf: (name: string) => string]>([
  ['full', 60, (name) => `{ ${'__typename '.repeat(4_999)} ${name}: __typename }`],
  ['long in other letters', 50, (name) => `{ ${name}: __typename } # ${'ж'.repeat(450_000)}`],
])('document cache: remembers as many documents that are %s as fit in 32 MB', (_, times, textOf) => {
  const cache = createDocumentCache(schema)
  const before = heapBytes()
  for (let index = 0; index < times; index += 1) {
    // As the text of a request is: of one piece.
    const text: string = JSON.parse(JSON.stringify(textOf(`n${index}`)))
    cache.add(text, parse(text))
  }
  const taken = heapBytes() - before
  const remembered = Array.from({ length: times }, (_, index) => cache.get(textOf(`n${index}`))).filter(
    Boolean,
  )
  expect(remembered.length).toBeGreaterThan(5)
  expect(remembered.length).toBeLessThan(times)
  expect(taken).toBeLessThan(40_000_000)
})

it('document cache: counts what compiling adds', async () => {
  const cache = createDocumentCache(schema)
  const before = heapBytes()
  const fields = Array.from({ length: 20 }, (_, at) => `a${at}: __typename`).join(' ')
  const texts = Array.from({ length: 2_000 }, (_, index) => `query Q${index} { ${fields} }`)
  for (const text of texts) {
    cache.add(text, parse(text))
    const found = cache.get(text)
    if (found?.operation !== 'uncompiled') throw new Error('It is not cached, or cannot be compiled')
    const operation = compileOperation(schema, found.document)
    if (!operation) throw new Error('It cannot be compiled')
    found.operation = operation
    await operation.execute({}, {})
  }
  expect(heapBytes() - before).toBeLessThan(40_000_000)
  const remembered = texts.filter((text) => cache.get(text))
  expect(remembered.length).toBeGreaterThan(300)
  expect(remembered.length).toBeLessThan(700)
})
