import { describe, expect, it } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const INCREMENT = `mutation($key: String) {
  increment(name: "c", idempotencyKey: $key) { value previousValue appliedDelta at replayed counter { value } }
}`

describe('idempotencyKey', () => {
  it('counts a repeat once, and returns its first result again beside the current counter', async () => {
    const { ask } = await startService()
    const { increment: first } = await ask(INCREMENT, { key: 'k' })
    expect(first).toMatchObject({
      value: 1,
      previousValue: 0,
      appliedDelta: 1,
      replayed: false,
      counter: { value: 1 },
    })
    await ask('mutation { incrementBy(name: "c", delta: 5) { value } }')
    const { increment: again } = await ask(INCREMENT, { key: 'k' })
    expect(again).toEqual({ ...first, replayed: true, counter: { value: 6 } })
    expect((await ask(INCREMENT, { key: 'other' })).increment).toMatchObject({ value: 7, replayed: false })
    expect((await ask(INCREMENT, { key: null })).increment).toMatchObject({ value: 8, replayed: false })
  })

  it.each([
    [
      'incrementBy',
      'incrementBy(name: "c", delta: 3, idempotencyKey: "k") { value replayed }',
      [3],
      'incrementBy(name: "c", delta: 4, idempotencyKey: "k") { value }',
    ],
    [
      'incrementMany',
      'incrementMany(changes: [{ name: "c" }, { name: "d", delta: 2 }, { name: "c" }], idempotencyKey: "k") { value replayed }',
      [1, 2, 2],
      'incrementMany(changes: [{ name: "c" }, { name: "c" }, { name: "d", delta: 2 }], idempotencyKey: "k") { value }',
    ],
    [
      'reset',
      'reset(name: "c", to: 9, idempotencyKey: "k") { value replayed }',
      [9],
      'reset(name: "c", idempotencyKey: "k") { value }',
    ],
    [
      'nextInSequence',
      'nextInSequence(name: "s", group: "B", count: 3, idempotencyKey: "k") { value lastValue formatted replayed group { lastValue } }',
      [1],
      'nextInSequence(name: "s", group: "B", idempotencyKey: "k") { value }',
    ],
  ])('is known to a repeat of %s, and refused for anything else', async (_, call, values, other) => {
    const { ask, refusal, send } = await startService()
    const repeats = [
      await ask(`mutation { a: ${call} b: ${call} }`),
      await ask(`mutation { a: ${call} b: ${call} }`),
    ]
    const answers = repeats.flatMap(({ a, b }) => [a, b].flat())
    expect(answers.map(({ value }) => value)).toEqual([1, 2, 3, 4].flatMap(() => values))
    expect(answers.map(({ replayed }) => replayed)).toEqual(
      [false, true, true, true].flatMap((replayed) => values.map(() => replayed)),
    )
    expect(await refusal(`mutation { ${other} }`)).toEqual({ code: 'IDEMPOTENCY_KEY_REUSED' })
    expect(await refusal('mutation { increment(name: "c", idempotencyKey: "k") { value } }')).toEqual({
      code: 'IDEMPOTENCY_KEY_REUSED',
    })
    // What was refused has changed nothing, and a repeat is still known.
    const { data } = await send(`mutation { a: ${call} }`)
    expect([data.a].flat()[0]).toMatchObject({ replayed: true })
  })

  it('returns the same texts of a block to a repeat, past the end of a cycle and after another definition', async () => {
    const { ask } = await startService()
    const take = `nextInSequence(name: "round", group: "é", count: 3, idempotencyKey: "k") {
    value lastValue values formattedValues at replayed group { nextValue }
  }`
    const { first } = await ask(`mutation {
    defineSequence(name: "round", definition: { startValue: 3, minValue: 1, maxValue: 4, cycle: true, format: "{group} {value:2}" }) { id }
    first: ${take}
  }`)
    const texts = { values: [3, 4, 1], formattedValues: ['é 03', 'é 04', 'é 01'], lastValue: 1 }
    expect(first).toMatchObject({ ...texts, replayed: false, group: { nextValue: 2 } })
    const { again } = await ask(`mutation {
    defineSequence(name: "round", definition: { maxValue: 9, format: "no {group} {value}", timeZone: "Asia/Tokyo" }) { id }
    nextInSequence(name: "round", group: "é") { value }
    again: ${take}
  }`)
    expect(again).toEqual({ ...first, replayed: true, group: { nextValue: 3 } })
  })

  it('is for one namespace, and takes arguments that are left out for their defaults', async () => {
    const { ask } = await startService()
    const { a, b, c } = await ask(`mutation {
    a: reset(name: "c", idempotencyKey: "k") { replayed }
    b: reset(idempotencyKey: "k", namespace: "default", to: 0, name: "c") { replayed }
    c: reset(idempotencyKey: "k", namespace: "x", to: 0, name: "c") { replayed }
  }`)
    expect([a, b, c]).toEqual([{ replayed: false }, { replayed: true }, { replayed: false }])
  })

  it('does not remember what was refused', async () => {
    const { ask, refusal, target } = await startService()
    await ask('mutation { defineCounter(name: "c", definition: { maxValue: 0 }) { maxValue } }')
    expect(await refusal(INCREMENT, { key: 'k' })).toEqual({ code: 'LIMIT_REACHED', limit: 0, value: 0 })
    expect(await query(target, 'select hash from idempotency_key')).toEqual([])
    await ask('mutation { defineCounter(name: "c", definition: { maxValue: 1 }) { maxValue } }')
    expect((await ask(INCREMENT, { key: 'k' })).increment).toMatchObject({ value: 1, replayed: false })
    expect((await ask(INCREMENT, { key: 'k' })).increment).toMatchObject({ value: 1, replayed: true })
  })

  it('has later calls of one flush follow the first with their key, or count where that one is refused', async () => {
    const { counters } = openTestNth(await freshDatabase())
    const key = { namespace: 'n', name: 'c' }
    await counters.define(key, { maxValue: 3 })
    const outcomes = await Promise.all(
      [5, 2, 2, 1].map((delta) =>
        counters.incrementBy(key, delta, { claim: claimOf('n', 'k', [delta]) }).then(
          ({ value, isReplayed }) => (isReplayed ? `${value} again` : value),
          ({ code }) => code,
        ),
      ),
    )
    expect(outcomes).toEqual(['LIMIT_REACHED', 2, '2 again', 'IDEMPOTENCY_KEY_REUSED'])
    expect((await counters.read(key)).value).toBe(2)
  })

  it('is of 1 to 255 printable characters', async () => {
    const { ask, refusal } = await startService()
    for (const key of ['k'.repeat(255), ' ', "'; drop table counter; --", '"\\']) {
      expect((await ask(INCREMENT, { key })).increment.replayed).toBe(false)
      expect((await ask(INCREMENT, { key })).increment.replayed).toBe(true)
    }
    const error = { code: 'BAD_USER_INPUT', argument: 'idempotencyKey' }
    for (const key of ['', 'ключ', 'a\nb']) expect(await refusal(INCREMENT, { key })).toEqual(error)
    expect(await refusal(INCREMENT, { key: 'k'.repeat(256) })).toEqual({ ...error, limit: 255 })
    expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 4 } })
  })

  it('counts nothing under a key that is neither free nor has a result, until it is free', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target, { timeoutMs: 1000 })
    const key = { namespace: 'n', name: 'c' }
    const claim = claimOf('n', 'k', [])
    const hash = `x'${claim.hash}'`
    await query(
      target,
      `insert into idempotency_key (hash, fingerprint, applied_at, claimed_at)
     values (${hash}, ${hash}, utc_timestamp(3), utc_timestamp(3))`,
    )
    await expect(counters.incrementBy(key, 1, { claim })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await query(target, `delete from idempotency_key where hash = ${hash}`)
    const again = () => counters.incrementBy(key, 1, { claim }).catch(() => undefined)
    await expect.poll(again).toMatchObject({ value: 1 })
  })

  it('has the result of a plain call stored in the room of its claim, and keeps the time of that', async () => {
    const target = await freshDatabase()
    await query(
      target,
      `create trigger storing before update on idempotency_key for each row
       if new.claimed_at <> old.claimed_at or length(new.results) <> length(old.results) then
         signal sqlstate '45000';
       end if`,
    )
    const { counters } = openTestNth(target)
    const key = { namespace: 'n', name: 'c' }
    await counters.incrementBy(key, 998)
    const claim = claimOf('n', 'k', [])
    expect(await counters.incrementBy(key, 1, { claim })).toMatchObject({ value: 999 })
    const [row] = await query(target, 'select results from idempotency_key')
    // What an older server reads, too.
    expect(JSON.parse(row?.results)).toMatchObject([[999, 998, 1, { DAY: 999 }]])
  })

  it('returns a result again that an older server has stored', async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    const key = { namespace: 'n', name: 'c' }
    const claims = ['old', 'new'].map((name) => claimOf('n', name, []))
    const stored = '[[7,6,1,{"DAY":5}]]'
    for (const { hash, fingerprint } of claims.slice(0, 1))
      await query(
        target,
        `insert into idempotency_key
       values (x'${hash}', x'${fingerprint}', utc_timestamp(3), '${stored}', utc_timestamp(3))`,
      )
    const results = await Promise.all(claims.map((claim) => counters.incrementBy(key, 1, { claim })))
    expect(results).toMatchObject([
      { value: 7, previousValue: 6, appliedDelta: 1, valuesIn: { DAY: 5 }, isReplayed: true },
      { value: 1, isReplayed: false },
    ])
  })

  it('recognizes a request as older servers do, whatever the order of its properties', () => {
    const [changes, reordered] = [
      { name: 'a', delta: 2, x: [null, { z: 1, y: 'é"' }] },
      { delta: 2, x: [null, { y: 'é"', z: 1 }], name: 'a' },
    ]
    const claim = claimOf('n', 'k', ['incrementMany', { changes: [changes] }], 'o')
    expect(claimOf('n', 'k', ['incrementMany', { changes: [reordered] }], 'o')).toEqual(claim)
    expect(claim).toEqual({
      hash: 'a32110627cc8c4f9947b0a49fabd7f94f29d5871d110835c14c9c1764ea7576f',
      fingerprint: '446b873647c2c2c0ae2bbd8e6ce34c8ebf830a59013fcd8e47f219da26f2ea24',
    })
  })
})
