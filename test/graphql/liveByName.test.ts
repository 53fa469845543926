import { isDeepStrictEqual } from 'node:util'
import { expect, it } from 'vitest'
import { subscribe } from '../support/client/events.ts'
import { startProtected } from '../support/client/keys.ts'
import { freshDatabase } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { startFront } from '../support/server/front.ts'
import { startService } from '../support/server/service.ts'

const GROUP =
  'subscription ($group: String! = "") { sequenceGroup(name: "counter", group: $group) { name lastValue nextFormatted } }'
const TOP = 'subscription ($first: Int!) { leaderboard(first: $first) { rank value node { name value } } }'

it('sequenceGroup: sends the last number of a group, by name', async () => {
  const { url, ask } = await startService()
  const [unnamed, named] = [
    await subscribe(url, GROUP),
    await subscribe(url, GROUP, { variables: { group: 'b' } }),
  ]
  expect(await unnamed.data()).toEqual({
    sequenceGroup: { name: '', lastValue: null, nextFormatted: '1' },
  })
  await named.data()
  await ask('mutation { nextInSequence(name: "counter", group: "b", count: 57) { value } }')
  await ask('mutation { nextInSequence(name: "counter") { value } }')
  expect(await unnamed.data()).toEqual({
    sequenceGroup: { name: '', lastValue: 1, nextFormatted: '2' },
  })
  expect(await named.data()).toMatchObject({ sequenceGroup: { name: 'b', lastValue: 57 } })
})

const add = (name: string, delta: number) =>
  `mutation { incrementBy(name: "${name}", delta: ${delta}) { value } }`

it('leaderboard: sends its first counters, and again when they change', async () => {
  const { url, ask } = await startFront()
  for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) await ask(add(name, 10 * (index + 1)))
  const edge = (rank: number, name: string, value: number) => ({ rank, value, node: { name, value } })
  const stream = await subscribe(url, TOP, { variables: { first: 2 } })
  await stream.until(({ leaderboard }) =>
    isDeepStrictEqual(leaderboard, [edge(1, 'd', 40), edge(2, 'c', 30)]),
  )
  await ask(add('a', 90))
  expect(await stream.data()).toEqual({ leaderboard: [edge(1, 'a', 100), edge(2, 'd', 40)] })
})

it('leaderboard: is by the total of a period, and null where the namespace has none', async () => {
  const { url, ask } = await startFront({ target: await freshDatabase() })
  const lowest = 'subscription { leaderboard(orderBy: VALUE_ASC, period: DAY, first: 1) { value } }'
  const none = await subscribe(url, lowest)
  expect(await none.data()).toEqual({ leaderboard: null })
  await ask('mutation { defineNamespace(definition: { leaderboards: [DAY] }) { id } }')
  await ask(add('a', 3))
  await ask(add('b', 2))
  await none.until(({ leaderboard }) => isDeepStrictEqual(leaderboard, [{ value: 2 }]))
})

it('leaderboard: has what is counted first, though it was read before there was anything', async () => {
  const { url, ask } = await startFront()
  const stream = await subscribe(url, TOP, { variables: { first: 1 } })
  expect(await stream.data()).toEqual({ leaderboard: [] })
  await ask(add('a', 7))
  expect(await stream.data()).toMatchObject({ leaderboard: [{ value: 7 }] })
})

it('leaderboard: is read once a second for all who watch it', async () => {
  const { url, ask } = await startFront()
  await ask(add('a', 1))
  const streams = await Promise.all(
    Array.from({ length: 20 }, (_, index) => subscribe(url, TOP, { variables: { first: 1 + (index % 5) } })),
  )
  for (const stream of streams) await stream.data()
  const statements = collectStatements()
  const before = performance.now()
  for (let delta = 1; delta <= 30; delta++) await ask(add('a', delta))
  for (const stream of streams) await stream.until(({ leaderboard }) => leaderboard[0].value === 466)
  const seconds = (performance.now() - before) / 1000
  const reads = statements.filter((text) => text.includes('as listed_value')).length
  expect(reads).toBeLessThanOrEqual(Math.ceil(seconds) + 1)
})

it('leaderboard: counts as a hundred names', async () => {
  const { url, createKey } = await startProtected({
    maxStreams: 200,
    access: { trustedProxies: ['127.0.0.1'] },
  })
  const { secret } = await createKey([{ scopes: ['READ'] }])
  const headers = { authorization: `Bearer ${secret}`, 'x-forwarded-for': '203.0.113.7' }
  const open = (namespace: string) =>
    subscribe(url, `subscription { leaderboard(namespace: "${namespace}") { value } }`, { headers })
  const streams = await Promise.all(Array.from({ length: 100 }, (_, index) => open(`n${index}`)))
  expect(streams.map(({ status }) => status)).toEqual(Array(100).fill(200))
  const refused = await open('one more')
  expect((await refused.body()).errors?.[0]?.extensions).toMatchObject({
    code: 'RATE_LIMITED',
    limit: 10_000,
  })
})

it('sequenceGroup, leaderboard: require READ of the sequence, and of all names of the namespace', async () => {
  const { url, createKey } = await startProtected()
  const grants = [
    { scopes: ['READ'], namespace: 'default', names: ['counter'] },
    { scopes: ['READ'], namespace: 'whole' },
  ]
  const { secret } = await createKey(grants)
  const statusOf = async (field: string) =>
    (await subscribe(url, `subscription { ${field} }`, { headers: { authorization: `Bearer ${secret}` } }))
      .status
  expect(await statusOf('sequenceGroup(name: "counter") { lastValue }')).toBe(200)
  expect(await statusOf('sequenceGroup(name: "other") { lastValue }')).toBe(403)
  expect(await statusOf('leaderboard(namespace: "whole") { value }')).toBe(200)
  expect(await statusOf('leaderboard { value }')).toBe(403)
})
