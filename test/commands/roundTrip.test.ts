// @module-tag random
import { expect, it } from 'vitest'
import { encodeId } from '../../src/graphql/arguments.ts'
import { DAY_MS } from '../../src/rules/calendar.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { runLeaderboardJobs } from '../support/database/leaderboards.ts'
import { wholeState } from '../support/database/wholeState.ts'
import { fillWithAnything, NAMESPACES } from '../support/model/anyState.ts'
import { stopClock } from '../support/model/periods.ts'
import { createRandom, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'
import { entriesIn, exported, restored } from '../support/server/transfer.ts'

stopClock()

const ALL = [...NAMESPACES, 'empty']

it.each(upTo(runSize(1, 3)))(
  'nth export and restore: answers the same after an export and a restore, whatever there was (%i)',
  async (stream) => {
    const [before, after] = [await freshDatabase(), await freshDatabase()]
    const tokens = await fillWithAnything(before, createRandom(stream))
    const ids = tokens.reservations.slice(0, 50).map((token) => encodeId('Reservation', token))
    const holdIds = tokens.holds.slice(0, 50).map((token) => encodeId('Hold', token))
    const allIds = [...ids, ...holdIds]
    const text = await exported(before)
    const { code, errors } = await restored(after, text)
    expect([code, errors]).toEqual([
      0,
      expect.stringMatching(/^Namespaces: 4 created\.\nCounters: \d+ created\./),
    ])
    // As the first process does when it starts.
    await runLeaderboardJobs(after)
    const [one, other] = [await startService({ target: before }), await startService({ target: after })]
    const state = await wholeState(other, ALL, allIds)
    expect(JSON.stringify(state).length).toBeGreaterThan(50_000)
    // What sorts its counters by value may follow their changes by seconds.
    await expect.poll(() => wholeState(one, ALL, allIds)).toEqual(state)

    // So do changes: numbers go on where they were, and what was refused still is.
    const changes = `mutation {
    a: nextInSequence(namespace: "shop", name: "plain", group: "a") { value formatted }
    b: nextInSequence(namespace: "shop", name: "monthly", group: "a", count: 3) { value formatted }
    c: nextInSequence(namespace: "shop", name: "down") { value formatted }
    d: nextInSequence(namespace: "shop", name: "ring", count: 5) { value formatted }
    e: reserveInSequence(namespace: "shop", name: "exact", group: "a") { value formatted }
    f: reserveInSequence(namespace: "shop", name: "exact", group: "") { value formatted }
    g: increment(namespace: "shop", name: "a") { value valueIn(period: WEEK) }
    h: incrementBy(namespace: "default", name: "A", delta: -3) { value valueIn(period: DAY) }
    i: increment(namespace: "Zürich ", name: "日本語") { value valueIn(period: MONTH) }
    j: defineSequence(namespace: "shop", name: "plain", definition: { format: "F1x{group}-{value}" }) { format }
    k: defineSequence(namespace: "shop", name: "exact", definition: { gapless: false }) { gapless }
    ${ids.map((id, index) => `r${index}: confirmReservation(id: "${id}") { value state }`).join('\n')}
    ${holdIds.map((id, index) => `h${index}: confirmHold(id: "${id}") { value appliedDelta replayed }`).join('\n')}
  }`
    expect(await other.send(changes)).toEqual(await one.send(changes))
    expect([one.faults, other.faults]).toEqual([[], []])
  },
)

it('nth export and restore: exports the same lines from the copy, in the same order', {
  tags: 'slow',
}, async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  await fillWithAnything(before, createRandom(4))
  const text = await exported(before)
  await restored(after, text)
  expect(entriesIn(await exported(after))).toEqual(entriesIn(text))
})

it('nth export and restore: leaves out holds with a counter that was deleted, or lost its value, as their rest could be confirmed', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const { counters, holds } = openTestNth(before)
  const hold = (...names: string[]) =>
    holds.hold(
      'n',
      names.map((name) => ({ name, delta: 2 })),
      { ttlMs: 60_000, longestMs: 60_000 },
    )
  const [whole, deleted, lost] = [await hold('a', 'b'), await hold('a', 'gone'), await hold('a', 'lost')]
  await counters.delete({ namespace: 'n', name: 'gone' })
  await query(
    before,
    "delete from counter_value where counter_id = (select id from counter where name = 'lost')",
  )
  const text = await exported(before)
  const parts = entriesIn(text).filter(({ type }) => type === 'hold')
  expect(parts.map(({ token }) => token)).toEqual([whole.token, whole.token])
  expect((await restored(after, text)).errors).toContain('Parts of holds: 2 created.')
  expect((await restored(after, text, '--continue')).errors).toContain('Parts of holds: 2 kept.')
  const copy = openTestNth(after)
  expect(await copy.counters.read({ namespace: 'n', name: 'a' })).toMatchObject({ value: 0, held: 2 })
  for (const hold of [deleted, lost])
    await expect(copy.holds.read(hold.token)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect(await copy.holds.confirm(await copy.holds.read(whole.token))).toMatchObject([
    { value: 2 },
    { value: 2 },
  ])
})

it('nth export and restore: exports nothing of holds where there are none, which earlier versions would refuse', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.define({ namespace: 'n', name: 'a' }, { maxValue: 9 })
  expect(await exported(target)).not.toMatch(/hold|held|maxIn/i)
})

it('nth export and restore: carries over which leaderboards a namespace has, and places what was added in past periods, too', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  let now = Date.now()
  const { counters, namespaces } = openTestNth(before, { now: () => new Date(now) })
  await namespaces.define('n', { leaderboards: ['MONTH', 'DAY'] })
  now -= 3 * DAY_MS
  for (const [name, delta] of Object.entries({ a: 3, b: 7 }))
    await counters.incrementBy({ namespace: 'n', name }, delta)
  const day = now
  now += 3 * DAY_MS
  await counters.incrementBy({ namespace: 'n', name: 'a' }, 5)
  const text = await exported(before)
  await restored(after, text)
  expect((await restored(after, text, '--continue')).errors).toContain('Namespaces: 1 kept.')
  await runLeaderboardJobs(after)
  const { ask } = await startService({ target: after })
  const { namespace, ...places } = await ask(
    `query($day: DateTime) {
      namespace(name: "n") { leaderboards }
      a: counter(name: "a", namespace: "n") { today: place(period: DAY) earlier: place(period: DAY, at: $day) }
      b: counter(name: "b", namespace: "n") { today: place(period: DAY) earlier: place(period: DAY, at: $day) }
    }`,
    { day: new Date(day) },
  )
  expect(namespace.leaderboards).toEqual(['DAY', 'MONTH'])
  expect(places).toEqual({ a: { today: 1, earlier: 2 }, b: { today: null, earlier: 1 } })
})
