import { expect, it } from 'vitest'
import { DEFINE, define, next } from '../support/client/sequenceCalls.ts'
import { startService } from '../support/server/service.ts'

it('restartSequence: continues numbers from elsewhere, in a group or from the start', async () => {
  const service = await startService()
  await define(service, { startValue: 4711 })
  expect((await next(service)).value).toBe(4711)
  const { restartSequence } = await service.ask(
    'mutation { restartSequence(name: "s", group: "old", nextValue: 918) { name nextValue lastValue sequence { name } } }',
  )
  expect(restartSequence).toEqual({ name: 'old', nextValue: 918, lastValue: null, sequence: { name: 's' } })
  expect((await next(service, { group: 'old' })).formatted).toBe('old-918')
})

it('defineSequence(startValue:): refuses another start where no number would begin there', async () => {
  const service = await startService()
  await next(service)
  const error = { code: 'BAD_USER_INPUT', argument: 'definition.startValue' }
  const { errors = [] } = await service.send(DEFINE, { definition: { startValue: 100 } })
  expect(errors[0]).toMatchObject({ message: expect.stringContaining('restartSequence'), extensions: error })
  expect(await service.refusal(DEFINE, { definition: { startValue: 100, step: 5 } })).toEqual(error)
  await define(service, { startValue: 1, step: 5 })
  // Each of these has a start ahead: of a round, of a period, of another group.
  await define(service, { startValue: 100, maxValue: 1000, cycle: true })
  await define(service, {
    cycle: false,
    maxValue: null,
    restartEvery: 'YEAR',
    format: '{yyyy}-{value}',
    startValue: 7,
  })
  await next(service, { name: 'grouped', group: 'A' })
  await define(service, { startValue: 50 }, 'grouped')
  expect((await next(service, { name: 'grouped', group: 'B' })).value).toBe(50)
})

it('restartSequence: restarts once under a key, within the bounds only', async () => {
  const service = await startService()
  await define(service, { maxValue: 10, minValue: 1 })
  const restart = `mutation($to: SafeInt) {
    restartSequence(name: "s", nextValue: $to, idempotencyKey: "k") { nextValue lastValue }
  }`
  await next(service, { count: 4 })
  expect((await service.ask(restart, { to: 2 })).restartSequence).toEqual({ nextValue: 2, lastValue: 4 })
  expect((await next(service)).value).toBe(2)
  expect((await service.ask(restart, { to: 2 })).restartSequence).toEqual({ nextValue: 3, lastValue: 2 })
  expect(await service.refusal(restart, { to: 3 })).toEqual({ code: 'IDEMPOTENCY_KEY_REUSED' })
  for (const [to, limit] of [
    [0, 1],
    [11, 10],
  ]) {
    const far = `mutation { restartSequence(name: "s", nextValue: ${to}) { name } }`
    expect(await service.refusal(far)).toEqual({ code: 'LIMIT_REACHED', argument: 'nextValue', limit })
  }
  const start = 'mutation { restartSequence(name: "s") { nextValue } }'
  expect((await service.ask(start)).restartSequence).toEqual({ nextValue: 1 })
})
