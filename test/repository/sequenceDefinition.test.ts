import { expect, it } from 'vitest'
import { DEFINE, define, KEY, NEXT, next, PARTS } from '../support/client/sequenceCalls.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { defaults } from '../support/model/sequenceModel.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const whole = {
  startValue: 100,
  step: -10,
  minValue: -100,
  maxValue: 200,
  cycle: true,
  format: '{yyyy}-{MM} {value}',
  restartEvery: 'MONTH',
  allowRepeats: true,
  timeZone: 'Europe/Berlin',
  gapless: false,
}

it('defineSequence: keeps a whole definition, leaves alone what is not mentioned, and takes null for the default', async () => {
  const service = await startService()
  const { defineSequence } = await define(service, whole)
  expect(defineSequence).toEqual({ ...whole, createdAt: expect.any(String) })
  const { sequence } = await service.ask(`{ sequence(name: "s") { ${PARTS} createdAt } }`)
  expect(sequence).toEqual(defineSequence)
  expect((await define(service, {})).defineSequence).toEqual(defineSequence)
  expect((await define(service, { step: 5, timeZone: 'asia/kolkata' })).defineSequence).toMatchObject({
    ...whole,
    step: 5,
    timeZone: expect.stringMatching(/^Asia\/(Kolkata|Calcutta)$/),
  })
  const nothing = Object.fromEntries(Object.keys(whole).map((part) => [part, null]))
  expect((await define(service, nothing)).defineSequence).toMatchObject(defaults)
})

it('sequence: has the defaults where nobody has defined it, in the time zone of its namespace', async () => {
  const service = await startService()
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(defaults)
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Europe/Berlin" }) { id } }')
  const berlin = { ...defaults, timeZone: 'Europe/Berlin' }
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(berlin)
  await next(service)
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Asia/Tokyo" }) { id } }')
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(berlin)
  expect((await define(service, { timeZone: null })).defineSequence.timeZone).toBe('Asia/Tokyo')
})

it.each([
  [{ step: 0 }, 'step'],
  [{ minValue: 5, maxValue: 4, startValue: 4 }, 'minValue'],
  [{ startValue: 0, minValue: 1 }, 'startValue'],
  [{ maxValue: 0 }, 'maxValue'],
  [{ cycle: true }, 'cycle'],
  [{ cycle: true, step: -1, maxValue: 9 }, 'cycle'],
  [{ gapless: true, cycle: true, maxValue: 9 }, 'gapless'],
  [{ restartEvery: 'YEAR' }, 'restartEvery'],
  [{ restartEvery: 'MONTH', format: '{yyyy}-{value}' }, 'format'],
  [{ format: '{yyyy}{value}' }, 'format', { position: 7 }],
  [{ format: '' }, 'format'],
  [{ format: 'a\nb {value}' }, 'format'],
  [{ format: `\ud800{value}` }, 'format'],
  [{ format: `${'x'.repeat(192)}{value}` }, 'format', { limit: 191 }],
  [{ timeZone: 'Mars/Olympus' }, 'timeZone'],
  [{ timeZone: '' }, 'timeZone'],
])('defineSequence: refuses %j', async (definition, part, details: object = {}) => {
  const service = await startService()
  const refused = { code: 'BAD_USER_INPUT', argument: `definition.${part}`, ...details }
  expect(await service.refusal(DEFINE, { definition })).toMatchObject(refused)
  const { namespace } = await service.ask('{ namespace { sequences { nodes { name } } } }')
  expect(namespace.sequences.nodes).toEqual([])
})

it('nextInSequence: counts by any step from any start, up or down, to its bounds', async () => {
  const service = await startService()
  await define(service, { startValue: 5, step: -3, minValue: -2 })
  expect((await next(service, { count: 2 })).values).toEqual([5, 2])
  const refused = { code: 'SEQUENCE_EXHAUSTED', limit: -2, lastValue: 2 }
  expect(await service.refusal(NEXT, { count: 2 })).toEqual(refused)
  expect(await next(service)).toMatchObject({ value: -1, group: { nextValue: null } })
  expect(await service.refusal(NEXT)).toEqual({ ...refused, lastValue: -1 })
  await define(service, { minValue: null })
  expect((await next(service)).value).toBe(-4)
})

it('defineSequence(cycle:): wraps around to the other end, also in the middle of a block', async () => {
  const service = await startService()
  await define(service, { startValue: 3, minValue: 1, maxValue: 4, cycle: true })
  expect((await next(service, { count: 3 })).values).toEqual([3, 4, 1])
  expect(await next(service, { count: 4 })).toMatchObject({ values: [2, 3, 4, 1], value: 2, lastValue: 1 })
  expect(await service.refusal(NEXT, { count: 5 })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'count',
    limit: 4,
  })
  await define(service, { maxValue: 1_000_000 })
  expect(await service.refusal(NEXT, { count: 2001 })).toMatchObject({ argument: 'count', limit: 2000 })
  await define(service, { startValue: 6, minValue: null, maxValue: 7, cycle: true }, 'from start')
  expect((await next(service, { name: 'from start', count: 2 })).values).toEqual([6, 7])
  expect((await next(service, { name: 'from start', count: 2 })).values).toEqual([6, 7])
})

it('sequences: does not create a sequence on a refused first use', async () => {
  const service = await startService()
  const refused = [
    'reserveInSequence(name: "s") { id }',
    'defineSequence(name: "s", definition: { step: 0 }) { id }',
  ]
  for (const field of refused)
    expect((await service.refusal(`mutation { ${field} }`)).code).toBe('BAD_USER_INPUT')
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Asia/Tokyo" }) { id } }')
  await next(service)
  const { sequence } = await service.ask('{ sequence(name: "s") { timeZone } }')
  expect(sequence.timeZone).toBe('Asia/Tokyo')
  expect(await query(service.target, 'select id from sequence')).toHaveLength(1)
})

it('nextInSequence: issues no number of a sequence that restarts in a period of a later version', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.define(KEY, { allowRepeats: true, restartEvery: 'YEAR' })
  await query(target, 'update sequence set restart_every = 6')
  const { sequences: later, faults } = openTestNth(target)
  const key = { namespace: 'n', sequence: 's', group: '' }
  await expect(later.next(key, 1)).rejects.toThrow('Unknown period in the database: code 6')
  expect(faults).toEqual([])
  await later.delete(KEY)
  expect((await later.next(key, 1)).issued.value).toBe(1)
})
