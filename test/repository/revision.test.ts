import { expect, it } from 'vitest'
import type { CounterChange } from '../../src/repository/counters.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import {
  counter,
  excessOf,
  group,
  MICROSECONDS_A_DAY,
  revisionOf,
  riseOf,
  withRevision,
} from '../support/model/revisions.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

it('revision: begins with the time of the database in microseconds since 2020, above that of names without a row', async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target)
  const mark = (await counters.read(counter)).revision
  expect((await sequences.readSequenceGroup(group)).revision).toBe(mark)
  const [row] = await query(
    target,
    "select timestampdiff(microsecond, '2020-01-01', utc_timestamp(6)) as now",
  )
  const revisions = [
    await counters.incrementBy(counter, 1, withRevision),
    (await sequences.next(group, 1, withRevision)).issued,
  ].map(revisionOf)
  expect(await counters.read({ ...counter, name: 'other' })).toMatchObject({ revision: mark })
  for (const revision of revisions) {
    expect(revision).toBeGreaterThan(mark)
    expect(revision).toBeGreaterThanOrEqual(row?.now)
    expect(revision).toBeLessThan(row?.now + MICROSECONDS_A_DAY)
  }
})

it.each([
  ['one that merely adds', {}, 1],
  ['one with bounds', { maxValue: 1000 }, 1],
  ['one with slots', { slots: 8 }, 1],
  ['more counters than are locked one by one', {}, 20],
])('revision: rises by one with each call, also in one flush: %s', async (_, definition, others) => {
  const { counters } = openTestNth(await freshDatabase())
  const keys = upTo(others).map((index) => ({ namespace: 'n', name: `c${index}` }))
  for (const key of keys) await counters.define(key, definition)
  for (const _round of upTo(3)) {
    await Promise.all(
      keys.map(async (key) => {
        const changes = await Promise.all(upTo(10).map(() => counters.incrementBy(key, 1, withRevision)))
        expect(new Set(changes.map(excessOf)).size).toBe(1)
        const { value, revision } = await counters.read(key)
        expect(excessOf(changes[0] as CounterChange)).toBe(revision - value)
      }),
    )
  }
})

it('revision: rises from the first change on, whatever the way in which that is written', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const keyOf = (name: string) => ({ namespace: 'n', name })
  const claim = (name: string) => ({ claim: claimOf('n', name, []), ...withRevision })
  const first = [
    ...(await Promise.all(upTo(3).map(() => counters.incrementBy(keyOf('coalesced'), 1, withRevision)))),
    ...(await Promise.all(upTo(3).map((index) => counters.incrementBy(keyOf('key'), 1, claim(`k${index}`))))),
    ...(await counters.incrementMany(
      'n',
      upTo(12).map((index) => ({ name: `many${index % 10}`, delta: 1 })),
      withRevision,
    )),
  ]
  for (const change of first) {
    expect(excessOf(change)).toBe(
      revisionOf(await counters.read(change.key)) - (await counters.read(change.key)).value,
    )
  }
})

it('revision: is raised by what changes the counter, and by nothing else', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const claim = claimOf('n', 'k', [])
  await counters.incrementBy(counter, 1)
  const rise = riseOf(() => counters.read(counter))
  expect(await rise(() => counters.incrementBy(counter, 5))).toBe(1)
  expect(await rise(() => counters.incrementBy(counter, 0))).toBe(0)
  expect(await rise(() => counters.incrementBy(counter, 1, { claim }))).toBe(1)
  expect(await rise(() => counters.incrementBy(counter, 1, { claim }))).toBe(0)
  expect(await rise(() => counters.reset(counter, 7))).toBe(1)
  expect(await rise(() => counters.reset(counter, 7))).toBe(1)
  expect(await rise(() => counters.resetAll('n', '', 8))).toBe(1)
  expect(await rise(() => counters.define(counter, { maxValue: 9, overflow: 'SATURATE' }))).toBe(1)
  expect(await rise(() => counters.incrementBy(counter, 5))).toBe(1)
  expect(await rise(() => counters.incrementBy(counter, 5))).toBe(0)
  expect(await rise(() => counters.define(counter, { overflow: 'REJECT' }))).toBe(1)
  expect(await rise(() => counters.incrementBy(counter, 1).catch(() => undefined))).toBe(0)
  const cart = [
    { name: 'c', delta: -1 },
    { name: 'c', delta: 0 },
    { name: 'c', delta: -1 },
  ]
  expect(await rise(() => counters.incrementMany('n', cart))).toBe(2)
  const tooMuch = [...cart, { name: 'c', delta: 5 }]
  expect(await rise(() => counters.incrementMany('n', tooMuch).catch(() => undefined))).toBe(0)
  const beside = () =>
    Promise.all([
      counters.incrementMany('n', tooMuch).catch(() => undefined),
      counters.incrementBy(counter, -1),
    ])
  expect(await rise(beside)).toBe(1)
  expect(
    await rise(() => Promise.all(upTo(9).map((index) => counters.incrementBy(counter, index % 3 ? -1 : 0)))),
  ).toBe(6)
  expect(await rise(() => counters.define(counter, { maxValue: null }))).toBe(1)
  expect(
    await rise(() => Promise.all(upTo(9).map((index) => counters.incrementBy(counter, index % 3)))),
  ).toBe(6)
  expect(await rise(() => counters.define(counter, { slots: 4 }))).toBe(1)
  expect(
    await rise(() => Promise.all(upTo(9).map((index) => counters.incrementBy(counter, index % 3)))),
  ).toBe(6)
  expect(await rise(() => counters.reset(counter, 0))).toBe(1)
  expect(await rise(() => counters.define(counter, { slots: 4, timeZone: 'Asia/Tokyo' }))).toBe(1)
  expect(await rise(() => counters.define(counter, { slots: 1 }))).toBe(1)
})

it('revision: is returned by each change as the next read returns it', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const changes: [string, () => Promise<CounterChange>][] = [
    ['first definition', () => counters.define(counter, { maxValue: 100 }, withRevision)],
    ['addition', () => counters.incrementBy(counter, 1, withRevision)],
    ['reset', () => counters.reset(counter, 5, withRevision)],
    ['slots', () => counters.define(counter, { maxValue: null, slots: 3 }, withRevision)],
    ['addition to a slot', () => counters.incrementBy(counter, 1, withRevision)],
    ['reset of slots', () => counters.reset(counter, 5, withRevision)],
    ['one slot', () => counters.define(counter, { slots: 1 }, withRevision)],
  ]
  for (const [name, change] of changes) {
    expect([name, revisionOf(await change())]).toEqual([name, (await counters.read(counter)).revision])
  }
})

it('revision: is returned by the first change under a key as the next read returns it, also beside a counter at 0', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const claim = claimOf('n', 'k', [])
  const [change] = await Promise.all([
    counters.incrementBy(counter, 1, { ...withRevision, claim }),
    // Its value is not in the answer of the database, so it is read again.
    counters.incrementBy({ namespace: 'n', name: 'other' }, 1),
  ])
  expect(revisionOf(change)).toBe((await counters.read(counter)).revision)
})

it('revision: does not fall where a first call is refused, which leaves a row', async () => {
  const { counters, sequences } = openTestNth(await freshDatabase())
  await sequences.define({ namespace: 'n', name: 's' }, { maxValue: 3 })
  const before = [await counters.read(counter), await sequences.readSequenceGroup(group)]
  await expect(counters.define(counter, { maxValue: -1 })).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
  await expect(sequences.next(group, 4)).rejects.toMatchObject({ code: 'SEQUENCE_EXHAUSTED' })
  const after = [await counters.read(counter), await sequences.readSequenceGroup(group)]
  for (const [index, state] of after.entries()) {
    expect(state.revision).toBeGreaterThan(before[index]?.revision ?? Number.NaN)
  }
  const changes = [
    await counters.incrementBy(counter, 1, withRevision),
    (await sequences.next(group, 1, withRevision)).issued,
  ]
  for (const [index, state] of after.entries()) {
    expect(changes[index]?.revision).toBeGreaterThan(state.revision)
  }
})

it('revision: is returned to each caller that asks for it, also where others of the flush do not', async () => {
  const { counters, sequences } = openTestNth(await freshDatabase())
  for (const _ of upTo(2)) {
    const changes = await Promise.all([
      counters.incrementBy(counter, 1),
      counters.incrementBy(counter, 1, withRevision),
    ])
    const numbers = await Promise.all([sequences.next(group, 1), sequences.next(group, 1, withRevision)])
    expect(changes[1].revision).toBe((await counters.read(counter)).revision)
    expect(numbers[1].issued.revision).toBe((await sequences.readSequenceGroup(group)).revision)
  }
})

it('revision: is raised by what changes a group, and by nothing else', async () => {
  const clock = { at: Date.UTC(2025, 11, 31, 12) }
  const { sequences } = openTestNth(await freshDatabase(), { now: () => new Date(clock.at) })
  const sequence = { namespace: 'n', name: 's' }
  const claim = claimOf('n', 'k', [])
  await sequences.define(sequence, { restartEvery: 'YEAR', format: '{yyyy}-{value} {group}', maxValue: 100 })
  await sequences.next(group, 1)
  const rise = riseOf(() => sequences.readSequenceGroup(group))
  expect(await rise(() => sequences.next(group, 5))).toBe(1)
  expect(await rise(() => Promise.all(upTo(7).map(() => sequences.next(group, 1))))).toBe(7)
  expect(await rise(() => sequences.next(group, 1, { claim }))).toBe(1)
  expect(await rise(() => sequences.next(group, 1, { claim }))).toBe(0)
  expect(await rise(() => sequences.next(group, 100).catch(() => undefined))).toBe(0)
  expect(await rise(() => sequences.next({ ...group, group: 'other' }, 1))).toBe(0)
  expect(await rise(() => sequences.restart(group, 50))).toBe(1)
  expect(await rise(() => sequences.define(sequence, { maxValue: 200 }))).toBe(1)
  clock.at = Date.UTC(2026, 0, 1)
  expect(await rise(() => sequences.next(group, 1))).toBe(1)
})

it('revision: is raised by reserving, confirming and releasing', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define({ namespace: 'n', name: 's' }, { gapless: true })
  await sequences.reserve(group, 60)
  const rise = riseOf(() => sequences.readSequenceGroup(group))
  let token = ''
  const reserve = async () => {
    token = (await sequences.reserve(group, 60)).token
  }
  expect(await rise(reserve)).toBe(1)
  expect(await rise(() => sequences.release(token))).toBe(1)
  expect(await rise(() => sequences.release(token))).toBe(0)
  expect(await rise(() => sequences.confirm(token).catch(() => undefined))).toBe(0)
  expect(await rise(reserve)).toBe(1)
  expect(await rise(() => sequences.confirm(token))).toBe(1)
})

it('revision: is returned by each change of a group as the next read returns it', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  const changes = [
    async () => revisionOf(await sequences.restart(group, 7, withRevision)),
    async () => revisionOf((await sequences.next(group, 1, withRevision)).issued),
    async () => {
      await sequences.define({ namespace: 'n', name: 's' }, { maxValue: 1000 })
      return revisionOf((await sequences.next(group, 1, withRevision)).issued)
    },
    async () =>
      revisionOf((await sequences.next(group, 2, { claim: claimOf('n', 'k', []), ...withRevision })).issued),
    async () => revisionOf((await sequences.next(group, 1, withRevision)).issued),
  ]
  for (const [index, change] of changes.entries()) {
    expect([index, await change()]).toEqual([index, (await sequences.readSequenceGroup(group)).revision])
  }
})

const COUNTER = 'fragment seen on Counter { revision }'
const GROUP = 'fragment seen on SequenceGroup { revision }'

it.each([
  ['increment', 'increment(name: "c") { counter { ...seen } }', COUNTER],
  ['incrementBy', 'incrementBy(name: "c", delta: 2) { counter { ... on Counter { mine: revision } } }', ''],
  ['incrementMany', 'incrementMany(changes: [{ name: "c" }]) { counter { revision } }', ''],
  ['reset', 'reset(name: "c") { counter { revision } }', ''],
  ['defineCounter', 'defineCounter(name: "c", definition: {}) { revision }', ''],
  ['deleteCounter', 'deleteCounter(name: "c") { counter { revision } }', ''],
  ['nextInSequence', 'nextInSequence(name: "s") { group { ...seen } }', GROUP],
  ['restartSequence', 'restartSequence(name: "s") { revision nextValue lastValue }', ''],
])('revision: is returned by %s, and by a repeat with its key', async (name, field, fragment) => {
  const { ask } = await startService()
  const keyed = field.replace(/\(/, '(idempotencyKey: "k", ')
  const hasKey = !/^(define|delete)/.test(name)
  const answers = []
  for (const text of [field, ...(hasKey ? [keyed, keyed, keyed] : [field])]) {
    answers.push(JSON.stringify(await ask(`mutation { ${text} } ${fragment}`)))
  }
  const revisions = answers.map((text) => Number(/"(?:revision|mine)":(\d+)/.exec(text)?.[1]))
  expect(revisions.every(Number.isSafeInteger)).toBe(true)
  expect(sorted(revisions)).toEqual(revisions)
  expect(revisions[0]).toBeGreaterThan(MICROSECONDS_A_DAY)
})

it('revision: is returned by every way to read a counter or a group', async () => {
  const { ask } = await startService()
  const { increment, nextInSequence } = await ask(`mutation {
    increment(name: "c") { counter { id revision } }
    nextInSequence(name: "s", group: "g") { group { id revision } }
  }`)
  const [{ counter }, { group }] = [increment, nextInSequence]
  const all = await ask(
    `query($ids: [ID!]!) {
      counter(name: "c") { id revision }
      counters(names: ["c"]) { id revision }
      nodes(ids: $ids) { ... on Counter { id revision } ... on SequenceGroup { id revision } }
      namespace {
        byName: counters { edges { node { id revision } } }
        byValue: counters(orderBy: VALUE_DESC) { edges { node { id revision } } }
      }
      sequence(name: "s") { group(name: "g") { id revision } groups { edges { node { id revision } } } }
    }`,
    { ids: [counter.id, group.id] },
  )
  const pageOf = (node: unknown) => ({ edges: [{ node }] })
  expect(all).toEqual({
    counter,
    counters: [counter],
    nodes: [counter, group],
    namespace: { byName: pageOf(counter), byValue: pageOf(counter) },
    sequence: { group, groups: pageOf(group) },
  })
})

it('revision: belongs to the state that is returned with it, also among hundreds of fields', async () => {
  const { ask } = await startService()
  const { reserveInSequence } = await ask(`mutation {
    defineSequence(name: "s", definition: { gapless: true }) { id }
    reserveInSequence(name: "s") { id }
  }`)
  const fields = upTo(300).map(
    (index) => `r${index}: node(id: $id) { ... on Reservation { group { nextValue revision } } }`,
  )
  let isEnding = false
  const reserve = async () => {
    while (!isEnding) await ask('mutation { reserveInSequence(name: "s") { id } }')
  }
  const reserving = upTo(4).map(reserve)
  const distances = new Set<number>()
  const read = async () => {
    const answer = await ask(`query($id: ID!) { ${fields.join(' ')} }`, { id: reserveInSequence.id })
    for (const { group } of Object.values<{ group: Record<string, number> }>(answer)) {
      distances.add((group.revision ?? 0) - (group.nextValue ?? 0))
    }
  }
  for (const _ of upTo(4)) await Promise.all(upTo(4).map(read))
  isEnding = true
  await Promise.all(reserving)
  expect(distances.size).toBe(1)
})
