import { expect, it } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { stopClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

const idOf = (text: string) => Buffer.from(text).toString('base64url')
const increment =
  'mutation { incrementBy(name: "c", delta: 5) { value previousValue counter { id value updatedAt } } }'

it.each([
  [
    'counters and lists',
    [
      ...upTo(100).map((n) => `c${n}: counter(name: "n${n}") { value }`),
      'l: counters(names: ["n1", "n2", "n1"]) { value }',
    ],
    1,
  ],
  ['namespaces', upTo(9).map((n) => `c${n}: counter(name: "c", namespace: "${n}") { value }`), 1],
  // One for the sequence, one for its groups.
  ['groups', upTo(50).map((n) => `s${n}: sequence(name: "s") { group(name: "${n}") { lastValue } }`), 2],
  [
    'nodes',
    upTo(50).map((n) => `n${n}: node(id: "${idOf(`Counter:default\n${n}`)}") { ... on Counter { value } }`),
    1,
  ],
])('queries: reads %s together', async (_, fields, count) => {
  const { ask } = await startService()
  const statements = collectStatements()
  expect(Object.keys(await ask(`{ ${fields.join(' ')} }`))).toHaveLength(fields.length)
  expect(statements).toHaveLength(count)
})

it('increment: changes a counter that it knows in one trip, which commits', async () => {
  const { ask } = await startService()
  await ask(increment)
  const statements = collectStatements()
  await ask(increment)
  expect(statements).toHaveLength(1)
})

it('increment: changes a counter for all callers who wait in one trip', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const key = { namespace: 'n', name: 'c' }
  await counters.incrementBy(key, 1)
  const statements = collectStatements()
  const changes = await Promise.all(upTo(1000).map((delta) => counters.incrementBy(key, delta)))
  expect(statements).toHaveLength(1)
  let value = 1
  for (const [index, change] of changes.entries()) {
    expect(change).toMatchObject({ previousValue: value, value: value + index + 1 })
    value = change.value
  }
})

it('increment: changes many counters in one transaction, whatever is added to each', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const keys = upTo(100).map((index) => ({ namespace: 'n', name: `c${index}` }))
  await Promise.all(keys.map((key) => counters.incrementBy(key, 1)))
  const statements = collectStatements()
  const changes = await Promise.all(keys.map((key, index) => counters.incrementBy(key, (index % 3) - 1)))
  expect(changes.map(({ value }) => value)).toEqual(keys.map((_, index) => index % 3))
  expect(statements).toHaveLength(2)
})

it('changes: a counter and a sequence are changed in one transaction', async () => {
  const { counters, sequences } = openTestNth(await freshDatabase())
  const both = () =>
    Promise.all([
      counters.incrementBy({ namespace: 'n', name: 'c' }, 1),
      sequences.next({ namespace: 'n', sequence: 's', group: 'g' }, 1),
    ])
  await both()
  const statements = collectStatements()
  const [{ value }, { issued }] = await both()
  expect([value, issued.value]).toEqual([2, 2])
  expect(statements).toHaveLength(2)
})

it('changes: keys, counters and sequence groups are locked in one order, whatever the order of the calls', async () => {
  const { counters, sequences } = openTestNth(await freshDatabase())
  const names = ['a', 'b', 'c', 'd']
  const change = (name: string) =>
    counters.incrementBy({ namespace: 'n', name }, 1, { claim: claimOf('n', `${name} ${calls++}`, []) })
  const count = (name: string) => counters.incrementBy({ namespace: 'n', name }, 1)
  const issue = (group: string) => sequences.next({ namespace: 'n', sequence: 's', group }, 1)
  let calls = 0
  for (const name of names) await Promise.all([count(name), issue(name)])
  const statements = collectStatements()
  for (const order of [names, names.toReversed()]) {
    statements.length = 0
    await Promise.all([...order.map(count), ...order.map(issue), ...order.map(change)])
    const [locking = ''] = statements
    const lists = [...locking.matchAll(/ in \(([\d, ]+)\)/g)].map(([, ids = '']) =>
      ids.split(',').map(Number),
    )
    const ofSeveral = lists.filter(({ length }) => length > 1)
    expect(ofSeveral.length).toBeGreaterThan(1)
    for (const ids of ofSeveral) expect(ids).toEqual(sorted(ids))
    const hashes = [...locking.matchAll(/\(x'([0-9a-f]{64})', x'/g)].map(([, hash]) => hash)
    expect(hashes).toHaveLength(4)
    expect(hashes).toEqual(hashes.toSorted())
  }
})
