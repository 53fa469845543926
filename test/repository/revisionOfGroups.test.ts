import { expect, it } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { group, MICROSECONDS_A_DAY, revisionOf, riseOf, withRevision } from '../support/model/revisions.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

stopClock()

it('is raised by what changes a group, and by nothing else', async () => {
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

it('is raised by reserving, confirming and releasing', async () => {
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

it('is returned by each change of a group as the next read returns it', async () => {
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
])('is returned by %s, and by a repeat with its key', async (name, field, fragment) => {
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

it('is returned by every way to read a counter or a group', async () => {
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

it('belongs to the state that is returned with it, also among hundreds of fields', async () => {
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
