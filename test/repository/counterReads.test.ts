// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { keyText } from '../../src/rules/counter.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { ofKind } from '../support/model/ofKind.ts'
import { runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = { namespace: 'n', name: 'c' }

it('counter: reads a counter by name once, and then by the id that it has cached, without what is not selected', async () => {
  const url = await freshDatabase()
  await openTestNth(url).counters.incrementBy(key, 1)
  const { counters } = openTestNth(url)
  const statements = collectStatements()
  for (const read of [counters.read, counters.values.read, counters.read])
    expect(await read(key)).toMatchObject({ ...key, value: 1 })
  const found = statements.map((text) => [/name in/.test(text), /updated_at/.test(text)])
  expect(found).toEqual([
    [true, true],
    [false, false],
    [false, true],
  ])
})

const names = fc.record({
  namespace: fc.constantFrom('m', 'n'),
  name: fc.constantFrom('a', 'A', 'b', 'á', 'never'),
})

const steps = fc.oneof(
  ofKind('add', 3, { key: names, by: fc.integer({ min: -9, max: 9 }) }),
  ofKind('delete', 1, { key: names }),
  ofKind('reset', 1, { key: names }),
  ofKind('define', 2, {
    key: names,
    definition: fc.constantFrom({ maxValue: 100 }, { slots: 4 }, { slots: 1 }, { timeZone: 'Asia/Tokyo' }),
  }),
  ofKind('read', 4, { keys: fc.array(names, { minLength: 1 }) }),
)

it('counters: are read by ids as by names, whichever process changes, defines and deletes what is cached', async () => {
  const url = await freshDatabase()
  const caching = openTestNth(url).counters
  const other = openTestNth(url).counters
  // No row fits into its cache.
  const byName = openTestNth(url, { rowCacheBytes: 1 }).counters
  let runs = 0
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.boolean(), steps), { maxLength: 40 }), async (sequence) => {
      const run = ++runs
      const own = ({ namespace, name }: typeof key) => ({
        namespace,
        name: name === 'never' ? name : `${name}${run}`,
      })
      for (const [isOther, step] of sequence) {
        const counters = isOther ? other : caching
        if (step.kind === 'read') {
          const keys = step.keys.map(own)
          const expected = await byName.readMany(keys)
          expect(await caching.readMany(keys)).toEqual(expected)
          const values = await caching.values.readMany(keys)
          for (const [index, state] of values.entries()) expect(expected[index]).toMatchObject(state)
          expect(values.map(keyText)).toEqual(keys.map(keyText))
          continue
        }
        if (step.key.name === 'never') continue
        const changed = own(step.key)
        if (step.kind === 'add') await counters.incrementBy(changed, step.by).catch(() => undefined)
        if (step.kind === 'delete') await counters.delete(changed)
        if (step.kind === 'reset') await counters.reset(changed, 1)
        if (step.kind === 'define') await counters.define(changed, step.definition).catch(() => undefined)
      }
    }),
    { numRuns: runSize(20, 300) },
  )
})
