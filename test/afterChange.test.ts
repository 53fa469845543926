import { expect, it } from 'vitest'
import { freshDatabase } from './support/database.ts'
import { startProxy } from './support/proxy.ts'
import { startService } from './support/service.ts'

/** A service whose reads fail, while it writes: their statements are cut off, and they wait for a second. */
async function startWithoutReads() {
  let isReading = true
  const target = await startProxy(await freshDatabase(), (statement) =>
    !isReading &&
    /created_at|as its_group|n\.time_zone/.test(statement) &&
    /^\(?select/.test(statement) &&
    // A change of a namespace begins by reading its row.
    !/from namespace n where n\.name = /.test(statement)
      ? 'is cut off'
      : 'passes',
  )
  const service = await startService({ target, writeTimeoutMs: 1000 })
  await service.ask(
    'mutation { increment(name: "c") { value } nextInSequence(name: "s") { value } defineNamespace(definition: {}) { name } }',
  )
  isReading = false
  return service
}

it.each([
  [
    'restartSequence(name: "s", nextValue: 500) { nextValue nextFormatted sequence { name } }',
    { nextValue: 500, nextFormatted: '500', sequence: null },
    'sequence',
  ],
  [
    'increment(name: "c") { value counter { createdAt } }',
    { value: 2, counter: { createdAt: null } },
    'counter.createdAt',
  ],
  [
    'reset(name: "c", to: 7) { value counter { createdAt } }',
    { value: 7, counter: { createdAt: null } },
    'counter.createdAt',
  ],
  [
    'nextInSequence(name: "s") { value group { sequence { step } } }',
    { value: 2, group: { sequence: null } },
    'group.sequence',
  ],
  [
    'defineNamespace(definition: {}) { name counters { nodes { name } } }',
    { name: 'default', counters: null },
    'counters',
  ],
])(
  'answers what %s has done, and says that it stands where the rest cannot be read',
  async (field, data, place) => {
    const { post, faults } = await startWithoutReads()
    // As it is, and compiled.
    for (let time = 0; time < 2; time += 1) {
      const { status, body } = await post(JSON.stringify({ query: `mutation { done: ${field} }` }))
      const value = 'value' in data && !field.startsWith('reset') ? { value: data.value + time } : {}
      expect([status, body.data]).toEqual([200, { done: { ...data, ...value } }])
      expect(body.errors).toEqual([
        {
          message: `The change was applied, but \`${place}\` could not be read in time; read it in a query.`,
          locations: expect.anything(),
          path: ['done', ...place.split('.')],
          extensions: { code: 'UNAVAILABLE' },
        },
      ])
    }
    expect(faults).toEqual([])
  },
)

it('answers a change beneath which more is asked for than there is', async () => {
  const { send } = await startService()
  const field =
    'defineCounter(name: "c", definition: { maxValue: 5 }) { maxValue history(period: DAY, last: 5001) { value } }'
  for (let time = 0; time < 2; time += 1) {
    const { data, errors = [] } = await send(`mutation { ${field} }`)
    expect(data).toEqual({ defineCounter: { maxValue: 5, history: null } })
    expect(errors).toMatchObject([
      {
        path: ['defineCounter', 'history'],
        extensions: { code: 'BAD_USER_INPUT', argument: 'last', limit: 5000 },
      },
    ])
    expect(errors[0]?.message).toMatch(
      /^The change was applied, but `history` could not be read: Argument "last"/,
    )
  }
})

it('says of a query that it can be sent again', async () => {
  const { refusal } = await startWithoutReads()
  for (const query of ['{ counter(name: "c") { value } }', '{ sequence(name: "s") { step } }'])
    expect(await refusal(query)).toEqual({ code: 'UNAVAILABLE', retryable: true, retryAfterMs: 1000 })
})
