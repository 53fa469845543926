import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parse } from 'graphql'
import { createYoga } from 'graphql-yoga'
import { expect, it } from 'vitest'
import { schema } from '../src/graphql/schema.ts'
import { compileOperation } from '../src/http/graphql/compiled.ts'
import { openKnownDocuments } from '../src/http/graphql/documentCache.ts'
import { documents } from '../src/http/graphql/documents.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

it.each<[string, number, (name: string) => string]>([
  ['full', 60, (name) => `{ ${'__typename '.repeat(4_999)} ${name}: __typename }`],
  ['long', 200, (name) => `{ ${name}: __typename } # ${'x'.repeat(900_000)}`],
  ['long in other letters', 100, (name) => `{ ${name}: __typename } # ${'ж'.repeat(450_000)}`],
  ['small', 20_000, (name) => `mutation { ${name}: increment(name: "c") { value } }`],
])('remembers so many documents that are %s as fit in 32 MB', (_, times, textOf) => {
  const known = openKnownDocuments(schema)
  const before = heapBytes()
  for (let index = 0; index < times; index += 1) {
    // As the text of a request is: of one piece.
    const text: string = JSON.parse(JSON.stringify(textOf(`n${index}`)))
    known.add(text, parse(text))
  }
  const taken = heapBytes() - before
  expect(known.count).toBeGreaterThan(5)
  expect(known.count).toBeLessThan(times)
  expect(taken).toBeLessThan(40_000_000)
})

it('counts what compiling adds', async () => {
  const known = openKnownDocuments(schema)
  const before = heapBytes()
  for (let index = 0; index < 4_000; index += 1) {
    const text = `query Q${index} { ${Array.from({ length: 20 }, (_, at) => `a${at}: __typename`).join(' ')} }`
    known.add(text, parse(text))
    const found = known.get(text)
    if (found?.isCompilable) found.operation = compileOperation(schema, found.document)
    await found?.operation?.execute({}, {})
  }
  expect(known.count).toBeGreaterThan(300)
  expect(known.count).toBeLessThan(700)
  expect(heapBytes() - before).toBeLessThan(40_000_000)
})

it('remembers documents that were found right, and no others', async () => {
  const known = openKnownDocuments(schema)
  const yoga = createYoga({
    schema,
    plugins: [documents(known)],
    parserAndValidationCache: false,
    logging: false,
  })
  const queries = ['{ __typename }', '{', '{ nope }', '{ __typename }', '{ a: __typename }']
  for (const query of queries) {
    const headers = { 'content-type': 'application/json' }
    await yoga.fetch('http://localhost/graphql', { method: 'POST', headers, body: JSON.stringify({ query }) })
  }
  expect(known.count).toBe(2)
  expect(queries.filter((query) => known.get(query))).toEqual([
    '{ __typename }',
    '{ __typename }',
    '{ a: __typename }',
  ])
})
