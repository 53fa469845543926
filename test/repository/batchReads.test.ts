import { graphql } from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { batchOwnReads, batchReads } from '../../src/repository/batches.ts'
import { UNRESTRICTED } from '../../src/rules/rights.ts'
import { type Owner, SharedOwner } from '../../src/rules/turns.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

interface Numbered {
  name: string
}

/** A reader that records which names were requested together, and finds all but "missing". */
function notingReader() {
  const batches: string[][] = []
  const reads = batchReads(
    ({ name }: Numbered) => name,
    async (keys) => {
      batches.push(keys.map(({ name }) => name))
      if (keys.some(({ name }) => name === 'bad')) throw new Error('no')
      // In another order than requested.
      const found = keys.filter(({ name }) => name !== 'missing').toReversed()
      return found.map(({ name }) => ({ name, isFound: true }))
    },
    ({ name }) => ({ name, isFound: false }),
  )
  return { batches, ...reads }
}

it('batchReads: waits for the other sockets of the same tick of the event loop', async () => {
  const { batches, read } = notingReader()
  const names = upTo(20).map(String)
  // Immediates that are due at once run like sockets that are read at once: promise jobs run between them.
  const reads = names.map(
    (name) => new Promise<Numbered>((resolve) => setImmediate(() => resolve(read({ name })))),
  )
  expect((await Promise.all(reads)).map(({ name }) => name)).toEqual(names)
  expect(batches).toEqual([names])
})

it('batchReads: reads many keys together with whatever else is requested in the same tick', async () => {
  const { batches, read, readMany } = notingReader()
  const [many, one, none, others] = await Promise.all([
    readMany([{ name: 'b' }, { name: 'a' }, { name: 'b' }, { name: 'missing' }]),
    read({ name: 'a' }),
    readMany([]),
    readMany([{ name: 'c' }, { name: 'a' }]),
  ])
  expect(many.map(({ name, isFound }) => [name, isFound])).toEqual([
    ['b', true],
    ['a', true],
    ['b', true],
    ['missing', false],
  ])
  expect([one, ...others].map(({ name }) => name)).toEqual(['a', 'c', 'a'])
  expect(none).toEqual([])
  expect(batches).toEqual([['b', 'a', 'missing', 'c']])
})

it('batchReads: reads up to 1 000 keys at once, counting each once', async () => {
  const { batches, readMany } = notingReader()
  const names = upTo(2500).map(String)
  const keys = names.map((name) => ({ name }))
  const answers = await Promise.all([
    readMany(keys),
    readMany(keys.slice(0, 1200)),
    readMany(keys.toReversed()),
  ])
  expect(batches.map(({ length }) => length)).toEqual([1000, 1000, 500])
  expect(batches.flat()).toEqual(names)
  expect(answers.map((states) => states.map(({ name }) => name))).toEqual([
    names,
    names.slice(0, 1200),
    names.toReversed(),
  ])
})

it('batchReads: fails only callers whose keys cannot be read, and no others beside or after them', async () => {
  const { read, readMany } = notingReader()
  const reads = [read({ name: 'a' }), read({ name: 'bad' }), readMany([{ name: 'a' }])]
  const settled = await Promise.allSettled(reads)
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(await read({ name: 'a' })).toEqual({ name: 'a', isFound: true })
})

it('queries: reads what many requests ask for in the same tick together, each counter once', async () => {
  const nth = openTestNth(await freshDatabase())
  await nth.counters.incrementBy({ namespace: 'default', name: 'n7' }, 7)
  const statements = collectStatements()
  const answers = await Promise.all(
    upTo(50).map(async (index) => {
      const source = `{ counter(name: "n${index}") { value } counters(names: ["n7", "own${index}"]) { value } }`
      const contextValue = { nth, caller: UNRESTRICTED }
      // Without its null prototypes.
      return JSON.parse(JSON.stringify((await graphql({ schema, source, contextValue })).data))
    }),
  )
  // The one counter that exists by its id, and the others by name.
  expect(statements).toHaveLength(2)
  expect(answers.map(({ counter }) => counter.value)).toEqual(upTo(50).map((index) => (index === 7 ? 7 : 0)))
  expect(answers.every(({ counters }) => counters[0].value === 7)).toBe(true)
})

it('batchOwnReads: joins the reads of an owner in one tick, also after one in which it read nothing', async () => {
  const joined: { members: readonly Owner[]; arrivedAt: number | undefined }[] = []
  const { readMany } = batchOwnReads(
    ({ name }: Numbered) => name,
    async (keys, owner) => {
      const members = owner instanceof SharedOwner ? [...owner.members] : []
      joined.push({ members, arrivedAt: owner.arrivedAt })
      return keys
    },
  )
  const request = (arrivedAt: number): Owner => ({ identity: 'a', address: '1', arrivedAt, hasLeft: false })
  const [gone, first, second] = [request(1), request(2), request(3)]
  await readMany([], gone)
  await Promise.all([readMany([{ name: 'x' }], first), readMany([{ name: 'y' }], second)])
  // Their time counts from the arrival of the first: it may have waited elsewhere before.
  expect(joined).toEqual([{ members: [first, second], arrivedAt: 2 }])
})
