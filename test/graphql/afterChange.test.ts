import { expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { stopClock } from '../support/model/periods.ts'
import { startService } from '../support/server/service.ts'

stopClock()

/** A service whose reads fail, while it writes: their statements are cut off, and they wait for three seconds. */
async function startWithoutReads() {
  let isReading = true
  const target = await startProxy(await freshDatabase(), (statement) =>
    !isReading &&
    /created_at|as its_group|n\.time_zone/.test(statement) &&
    /^(set statement [^;]* for )?\(?select/.test(statement) &&
    // A change of a namespace begins by reading its row.
    !/from namespace n where n\.name = /.test(statement)
      ? 'is cut off'
      : 'passes',
  )
  const service = await startService({ target, writeTimeoutMs: 3000 })
  await service.ask(
    `mutation {
      increment(name: "c") { value }
      nextInSequence(name: "s") { value }
      defineNamespace(definition: {}) { name }
    }`,
  )
  isReading = false
  return service
}

/** Mutations, the data of their response the first time, and what it lacks. */
const CHANGES = [
  {
    field: 'increment(name: "c") { value counter { createdAt } }',
    data: { value: 2, counter: { createdAt: null } },
    place: 'counter.createdAt',
  },
  {
    field: 'nextInSequence(name: "s") { value group { sequence { step } } }',
    data: { value: 2, group: { sequence: null } },
    place: 'group.sequence',
  },
  {
    field: 'defineNamespace(definition: {}) { name counters { nodes { name } } }',
    data: { name: 'default', counters: null },
    place: 'counters',
  },
]

it('mutations: return what they have done, and that it was applied, when the rest cannot be read', {
  tags: 'slow',
}, async () => {
  const { post, faults } = await startWithoutReads()
  // As it is, and compiled.
  for (const time of [0, 1]) {
    await Promise.all(
      CHANGES.map(async ({ field, data, place }) => {
        const { status, body } = await post(JSON.stringify({ query: `mutation { done: ${field} }` }))
        const value = /^increment|^next/.test(field) ? { value: (data.value ?? 0) + time } : {}
        expect([status, body.data]).toEqual([200, { done: { ...data, ...value } }])
        expect(body.errors).toEqual([
          {
            message: `The change was applied, but \`${place}\` could not be read in time; read it in a query.`,
            locations: expect.anything(),
            path: ['done', ...place.split('.')],
            extensions: { code: 'UNAVAILABLE' },
          },
        ])
      }),
    )
  }
  expect(faults).toEqual([])
})

it('mutations: are answered if what they select exceeds a limit', async () => {
  const { send } = await startService()
  const field =
    'defineCounter(name: "c", definition: { maxValue: 5 }) { maxValue history(period: DAY, last: 2501) { value } }'
  for (let time = 0; time < 2; time += 1) {
    const { data, errors = [] } = await send(`mutation { ${field} }`)
    expect(data).toEqual({ defineCounter: { maxValue: 5, history: null } })
    expect(errors).toMatchObject([
      {
        path: ['defineCounter', 'history'],
        extensions: { code: 'BAD_USER_INPUT', argument: 'last', limit: 2500 },
      },
    ])
    expect(errors[0]?.message).toMatch(
      /^The change was applied, but `history` could not be read: Argument "last"/,
    )
  }
})

it('mutations: are refused before the change if a condition is null', async () => {
  const { ask, refusal } = await startService()
  const change = 'increment(name: "c") { value ...F }'
  for (const directive of ['@include(if: $b)', '@skip(if: $b)']) {
    const inField = `mutation ($b: Boolean = true) { increment(name: "c") { value ${directive} } }`
    const inFragment = `mutation ($b: Boolean = true) { ${change} } fragment F on CounterChange { counter { id ${directive} } }`
    for (const document of [inField, inFragment])
      expect(await refusal(document, { b: null })).toEqual({ code: 'BAD_USER_INPUT', argument: 'if' })
  }
  const document = 'mutation ($b: Boolean = true) { increment(name: "c") { value @include(if: $b) } }'
  expect(await ask(document)).toEqual({ increment: { value: 1 } })
})

it('queries: are retryable when they could not be read', async () => {
  const { refusal } = await startWithoutReads()
  const queries = ['{ counter(name: "c") { value } }', '{ sequence(name: "s") { step } }']
  const refusals = await Promise.all(queries.map((query) => refusal(query)))
  expect(refusals).toEqual(queries.map(() => ({ code: 'UNAVAILABLE', retryable: true, retryAfterMs: 1000 })))
})
