import { expect, it } from 'vitest'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { holdRows } from '../support/database/hold.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const key = { namespace: 'n', name: 'c' }

const DEFINE = `mutation($definition: CounterDefinitionInput!) {
  defineCounter(name: "c", definition: $definition) { value minValue maxValue overflow createdAt updatedAt }
}`

it('defineCounter: creates a counter, and changes only what its definition names', async () => {
  const { ask } = await startService()
  const define = async (definition: object) => (await ask(DEFINE, { definition })).defineCounter
  const { createdAt, ...made } = await define({ maxValue: 10 })
  expect(made).toEqual({ value: 0, minValue: null, maxValue: 10, overflow: 'REJECT', updatedAt: null })
  expect(createdAt).toBeTruthy()
  expect((await ask('{ namespace { counters { nodes { name } } } }')).namespace.counters.nodes).toEqual([
    { name: 'c' },
  ])
  await ask('mutation { incrementBy(name: "c", delta: 4) { value } }')
  expect(await define({ minValue: -5, overflow: 'SATURATE' })).toMatchObject({
    value: 4,
    minValue: -5,
    maxValue: 10,
    overflow: 'SATURATE',
    createdAt,
  })
  expect(await define({})).toMatchObject({ minValue: -5, maxValue: 10, overflow: 'SATURATE' })
  expect(await define({ minValue: null, maxValue: 4 })).toMatchObject({
    minValue: null,
    maxValue: 4,
    overflow: 'SATURATE',
  })
  expect(await define({ maxValue: null, overflow: null })).toMatchObject({
    minValue: null,
    maxValue: null,
    overflow: 'REJECT',
  })
  const { counter } = await ask('{ counter(name: "c") { value minValue maxValue overflow createdAt } }')
  expect(counter).toEqual({ value: 4, minValue: null, maxValue: null, overflow: 'REJECT', createdAt })
})

it.each([
  ['a bound that the value breaks', { maxValue: 3 }, { code: 'LIMIT_REACHED', limit: 3, value: 4 }],
  ['a lower bound that the value breaks', { minValue: 5 }, { code: 'LIMIT_REACHED', limit: 5, value: 4 }],
  ['bounds that leave no value', { minValue: 9, maxValue: 8 }, { code: 'BAD_USER_INPUT' }],
  ['a bound that leaves no value beside the present one', { minValue: 11 }, { code: 'BAD_USER_INPUT' }],
  ['a fraction', { maxValue: 1.5 }, { code: 'BAD_USER_INPUT' }],
  ['an unknown overflow', { overflow: 'WRAP' }, { code: 'BAD_USER_INPUT' }],
])('defineCounter: refuses %s, and leaves the definition as it was', async (_, definition, refused) => {
  const { ask, refusal } = await startService()
  await ask(DEFINE, { definition: { maxValue: 10 } })
  await ask('mutation { incrementBy(name: "c", delta: 4) { value } }')
  const argument = `definition.${Object.keys(definition)[0]}`
  expect(await refusal(DEFINE, { definition })).toEqual({ ...refused, argument })
  const { counter } = await ask('{ counter(name: "c") { value minValue maxValue overflow } }')
  expect(counter).toEqual({ value: 4, minValue: null, maxValue: 10, overflow: 'REJECT' })
})

it('minValue, maxValue: refuses only what does not fit, and goes on with what does', async () => {
  const { counters } = openTestNth(await freshDatabase())
  await counters.define(key, { minValue: 0, maxValue: 10 })
  const answers = await Promise.all(
    [6, 5, 4, 1, -11, -10, -1].map((delta) =>
      counters.incrementBy(key, delta).then(
        ({ value }) => value,
        ({ details }) => details,
      ),
    ),
  )
  expect(answers).toEqual([
    6,
    { limit: 10, value: 6 },
    10,
    { limit: 10, value: 10 },
    { limit: 0, value: 10 },
    0,
    { limit: 0, value: 0 },
  ])
})

it('minValue, maxValue: refuses only what leaves the safe range, of a counter without bounds and of carts with it', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const other = { namespace: 'n', name: 'other' }
  const END = Number.MAX_SAFE_INTEGER
  await counters.reset(key, END - 3)
  await counters.reset(other, 0)
  const codeOf = ({ code }: { code: string }) => code
  const valueIn = ({ value }: { value: number }) => value
  const cart = (delta: number) =>
    counters
      .incrementMany('n', [
        { name: other.name, delta: 1 },
        { name: key.name, delta },
      ])
      .then((changes) => changes.map(valueIn), codeOf)
  const answers = await Promise.all([
    counters.incrementBy(key, 5).then(valueIn, codeOf),
    counters.incrementBy(key, 1).then(valueIn, codeOf),
    counters.incrementBy(other, 1).then(valueIn, codeOf),
    cart(4),
    cart(-1),
    counters.incrementBy(key, 2).then(valueIn, codeOf),
  ])
  expect(answers).toEqual(['OUT_OF_RANGE', END - 2, 1, 'OUT_OF_RANGE', [2, END - 3], END - 1])
  const [value, otherValue] = [await counters.read(key), await counters.read(other)].map(valueIn)
  expect([value, otherValue]).toEqual([END - 1, 2])
})

it('defineCounter: reports that a definition was not changed while another session locks it', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const maker = openTestNth(target).counters
  await maker.incrementBy(key, 1)
  const { counters } = openTestNth(target, { timeoutMs: 2500 })
  const holder = await holdRows(target, 'select * from counter for update')
  const other = { namespace: 'n', name: 'other' }
  await expect(counters.define(key, { maxValue: 5 })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await expect(counters.delete(key)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await holder.query('rollback')
  expect(await maker.define(key, { maxValue: 5 })).toMatchObject({
    value: 1,
    definition: { maxValue: 5 },
  })
  expect(await maker.incrementBy(other, 1)).toMatchObject({ value: 1 })
})

it('defineCounter: changes bounds under load of two processes without a number beyond them', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target).counters, openTestNth(target).counters]
  const [first] = processes
  await first?.define(key, { maxValue: 0 })
  let isOver = false
  const sold: number[] = []
  const buyers = upTo(32).map(async (buyer) => {
    while (!isOver) {
      const answer = await processes[buyer % 2]?.incrementBy(key, 1).catch((error) => error)
      if (answer?.code) expect(answer).toMatchObject({ code: 'LIMIT_REACHED' })
      else sold.push(answer?.value)
    }
  })
  for (const round of upTo(20)) {
    const { definition } = (await processes[round % 2]?.define(key, { maxValue: round * 50 })) ?? {}
    expect(definition?.maxValue).toBe(round * 50)
    await expect.poll(() => sold.length).toBe(round * 50)
  }
  isOver = true
  await Promise.all(buyers)
  expect(sorted(sold)).toEqual(upTo(1000))
})
