import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

const RESET = `mutation($name: String! = "c", $to: SafeInt!, $value: SafeInt, $revision: SafeInt, $key: String) {
  reset(name: $name, to: $to, expectedValue: $value, expectedRevision: $revision, idempotencyKey: $key) {
    value previousValue replayed counter { revision }
  }
}`
const READ = '{ counter(name: "c") { value revision } }'

it('reset(expectedValue:): sets a value only if it is the expected one', async () => {
  const { ask, send } = await startService()
  await ask('mutation { incrementBy(name: "c", delta: 7) { value } }')
  const { counter } = await ask(READ)
  const refused = await send(RESET, { to: 0, value: 6 })
  expect(refused.data).toEqual({ reset: null })
  expect(refused.errors).toMatchObject([
    {
      message: 'The value is 7, not 6 as expected. Nothing was changed.',
      extensions: { code: 'CONFLICT', value: 7, revision: counter.revision },
    },
  ])
  expect(refused.errors?.[0]?.extensions).not.toHaveProperty('retryable')
  expect(await ask(READ)).toEqual({ counter })
  expect((await ask(RESET, { to: 3, value: 7 })).reset).toMatchObject({ value: 3, previousValue: 7 })
})

it('reset(expectedRevision:): sets a value only if nothing has changed the counter since its revision', async () => {
  const { ask, send } = await startService()
  await ask('mutation { increment(name: "c") { value } }')
  const { revision } = (await ask(READ)).counter
  await ask('mutation { increment(name: "c") { value } incrementBy(name: "c", delta: -1) { value } }')
  // The value is the same again, but the counter is not.
  const refused = await send(RESET, { to: 0, revision })
  const present = (await ask(READ)).counter
  expect(refused.errors).toMatchObject([{ extensions: { code: 'CONFLICT', ...present } }])
  const { reset } = await ask(RESET, { to: 9, revision: present.revision })
  expect(reset).toMatchObject({ value: 9, previousValue: 1 })
  expect((await ask(RESET, { to: 2, revision: reset.counter.revision })).reset.value).toBe(2)
})

it('reset(expectedValue:): sets a counter that was never changed if 0 is expected, and creates nothing where it is refused', async () => {
  const { ask, send } = await startService()
  expect((await send(RESET, { to: 5, value: 1 })).errors).toMatchObject([
    { extensions: { code: 'CONFLICT', value: 0 } },
  ])
  expect(await ask('{ counter(name: "c") { createdAt } namespace { counters { nodes { name } } } }')).toEqual(
    {
      counter: { createdAt: null },
      namespace: { counters: { nodes: [] } },
    },
  )
  expect((await ask(RESET, { to: 5, value: 0 })).reset.value).toBe(5)
})

it('reset(expectedValue:): compares the sum of slots, but no revision of them', async () => {
  const { ask, send } = await startService()
  await ask('mutation { defineCounter(name: "c", definition: { slots: 8 }) { name } }')
  for (let count = 0; count < 20; count++) await ask('mutation { increment(name: "c") { value } }')
  expect((await send(RESET, { to: 0, value: 19 })).errors).toMatchObject([
    { extensions: { code: 'CONFLICT', value: 20 } },
  ])
  expect((await send(RESET, { to: 0, revision: 1 })).errors).toMatchObject([
    { extensions: { code: 'BAD_USER_INPUT', argument: 'expectedRevision' } },
  ])
  expect((await ask(RESET, { to: 0, value: 20 })).reset).toMatchObject({ value: 0, previousValue: 20 })
  expect((await ask(READ)).counter.value).toBe(0)
})

it('reset(expectedValue:): refuses two expectations, and a bound as before', async () => {
  const { ask, send } = await startService()
  expect((await send(RESET, { to: 0, value: 0, revision: 1 })).errors).toMatchObject([
    { extensions: { code: 'BAD_USER_INPUT', argument: 'expectedRevision' } },
  ])
  await ask('mutation { defineCounter(name: "c", definition: { maxValue: 3 }) { name } }')
  expect((await send(RESET, { to: 4, value: 0 })).errors).toMatchObject([
    { extensions: { code: 'LIMIT_REACHED', limit: 3 } },
  ])
})

it('reset(expectedValue:): loses no update of callers that read, and set one more if nobody else has', async () => {
  const target = await freshDatabase()
  const services = await Promise.all([startService({ target }), startService({ target })])
  const name = (caller: number) => (caller % 2 === 0 ? 'c' : 'd')
  await Promise.all(
    Array.from({ length: 12 }, async (_, caller) => {
      const { ask, send } = services[caller % 3 === 0 ? 0 : 1] ?? services[0]
      for (let done = 0; done < 5; ) {
        const { counter } = await ask(`{ counter(name: "${name(caller)}") { value revision } }`)
        const expected =
          done % 2 === 0 && counter.value > 0 ? { revision: counter.revision } : { value: counter.value }
        const { errors } = await send(RESET, { name: name(caller), to: counter.value + 1, ...expected })
        if (!errors) done += 1
        else expect(errors).toMatchObject([{ extensions: { code: 'CONFLICT' } }])
      }
    }),
  )
  const [{ ask }] = services
  expect((await ask('{ counters(names: ["c", "d"]) { value } }')).counters).toEqual([
    { value: 30 },
    { value: 30 },
  ])
})
