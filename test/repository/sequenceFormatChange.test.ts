import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { DEFINE, define, NEXT, next } from '../support/client/sequenceCalls.ts'
import { freshDatabase } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

it('allows changes of a sequence in use that keep its numbers unique', async () => {
  const service = await startService()
  await define(service, { format: 'T-{group}-{value}' })
  expect((await next(service, { group: 'A', count: 3 })).formatted).toBe('T-A-1')
  for (const [definition, formatted] of [
    [{ step: 5 }, 'T-A-8'],
    [{ format: 'N-{group}-{value:4}' }, 'N-A-0013'],
    [{ minValue: 100, startValue: 100 }, 'N-A-0100'],
    [{ format: 'Y-{yyyy}/{group}/{value}', restartEvery: 'YEAR', timeZone: 'Europe/Berlin' }, 'Y-2026/A/100'],
    [{ restartEvery: null, format: '+{group}+{value}' }, '+A+105'],
  ] as const) {
    await define(service, definition)
    const text = (await next(service, { group: 'A' })).formatted
    expect(text.replace(/20\d\d/, '2026')).toBe(formatted)
  }
})

it('shows the last number as it was written, whatever the format is now', async () => {
  const service = await startService()
  await next(service)
  await define(service, { format: 'INV-{value:3}' })
  const { sequence } = await service.ask('{ sequence(name: "s") { group { lastFormatted nextValue } } }')
  expect(sequence.group).toEqual({ lastFormatted: '1', nextValue: 2 })
  expect(await next(service)).toMatchObject({ formatted: 'INV-002', group: { lastFormatted: 'INV-002' } })
})

it.each([
  [{ step: -1 }, 'step'],
  [{ format: '{value}0' }, 'format'],
  [{ format: '{value}-{yyyy}', restartEvery: 'YEAR' }, undefined],
  [{ gapless: true }, 'gapless'],
])('of a sequence in use: %j', async (definition, part) => {
  const service = await startService()
  await next(service, { count: 20 })
  if (part === undefined) return expect(await define(service, definition)).toBeDefined()
  const refused = { code: 'BAD_USER_INPUT', argument: `definition.${part}` }
  expect(await service.refusal(DEFINE, { definition })).toEqual(refused)
  expect((await next(service)).value).toBe(21)
})

it('numbers invoices by year from now on', async () => {
  const service = await startService()
  await define(service, { format: 'INV-{value}' })
  expect((await next(service)).formatted).toBe('INV-1')
  await define(service, { format: 'INV-{yyyy}-{value}' })
  expect((await next(service)).formatted).toMatch(/^INV-20\d\d-2$/)
})

it.each([
  [{}, '', '{value}0', 'N-{value}0'],
  [{ format: 'N{value}' }, '', 'N{value}0', 'A-N{value}0'],
  [{ format: 'T/{group}/{value}' }, 'G', 'T/{group}-{value}', 'N-T/{group}-{value}'],
])('suggests a format that works: %j of group "%s", then %s', async (first, group, format, suggested) => {
  const service = await startService()
  await define(service, first)
  await next(service, { group })
  const { errors } = await service.send(DEFINE, { name: 's', definition: { format } })
  expect(errors?.[0]?.message).toContain(`, such as ${JSON.stringify(suggested)}; or set allowRepeats.`)
  await define(service, { format: suggested })
  expect(await next(service, { group })).toMatchObject({ value: 2 })
})

it('has no format to suggest where the texts of named groups may begin and end in any way', async () => {
  const service = await startService()
  await next(service, { group: 'A' })
  const { errors } = await service.send(DEFINE, { name: 's', definition: { format: 'T-{group}-{value}' } })
  expect(errors?.[0]?.message).toMatch(
    /issued as "\{group\}-#".*begins or ends with other characters than digits; or/,
  )
  await define(service, { format: 'T-{group}-{value}', allowRepeats: true })
  expect((await next(service, { group: 'A' })).formatted).toBe('T-A-2')
})

it('repeats nothing when only the bounds of the same format change', async () => {
  const service = await startService()
  await define(service, { step: -1, minValue: 0, startValue: 2, format: 'A{value}' })
  await next(service, { count: 2 })
  await define(service, { minValue: null })
  expect((await next(service)).formatted).toBe('A0')
  expect((await next(service)).formatted).toBe('A-1')
})

it('refuses to undo a change that could repeat numbers, unless the new ones look different', async () => {
  const service = await startService()
  await define(service, { maxValue: 3, cycle: true })
  await next(service, { count: 2 })
  const once = { cycle: false, maxValue: null }
  expect(await service.refusal(DEFINE, { definition: once })).toMatchObject({ argument: 'definition.cycle' })
  await define(service, { ...once, format: 'x{value}' })
  expect((await next(service)).formatted).toBe('x3')
  await define(service, { allowRepeats: true, step: -1, format: null })
  expect((await next(service)).formatted).toBe('2')
  const strict = { allowRepeats: false, step: 1 }
  expect(await service.refusal(DEFINE, { definition: strict })).toMatchObject({
    argument: 'definition.step',
  })
  await define(service, { ...strict, format: 'y{value}' })
  expect((await next(service)).formatted).toBe('y3')
})

it('compares negative numbers by their text', async () => {
  const service = await startService()
  await define(service, { startValue: -5, format: 'A{value}' })
  expect((await next(service, { count: 2 })).formatted).toBe('A-5')
  const minus = { format: 'A-{value}' }
  expect(await service.refusal(DEFINE, { definition: minus })).toMatchObject({
    argument: 'definition.format',
  })
  await define(service, { format: 'A{value}' }, 'positive')
  await next(service, { name: 'positive' })
  await define(service, minus, 'positive')
  expect((await next(service, { name: 'positive' })).formatted).toBe('A-2')
})

it('refuses to return to an earlier direction and format, as the same numbers would be issued again', async () => {
  const service = await startService()
  await next(service, { count: 9 })
  await define(service, { step: -1, format: 'down {value}' })
  await next(service, { count: 5 })
  const again = { step: 1, format: null }
  expect(await service.refusal(DEFINE, { definition: again })).toMatchObject({
    argument: 'definition.format',
  })
  await define(service, { step: 1, format: 'up {value}' })
  expect((await next(service)).formatted).toBe('up 5')
})

it('knows that a cycle above a negative minimum issues negative numbers', async () => {
  const service = await startService()
  await define(service, { minValue: -5, maxValue: 5, cycle: true })
  for (const _ of upTo(8)) await next(service)
  const definition = { cycle: false, minValue: null, maxValue: null, format: '-{value}' }
  expect(await service.refusal(DEFINE, { definition })).toMatchObject({ argument: 'definition.format' })
})

it('knows the numbers from before the first definition, which changes nothing', async () => {
  const service = await startService()
  await next(service, { count: 9 })
  await define(service, {})
  expect(await service.refusal(DEFINE, { definition: { step: -1 } })).toMatchObject({
    argument: 'definition.step',
  })
})

it('counts no format in which nothing was issued', async () => {
  const service = await startService()
  await define(service, { format: 'INV-{value}' })
  await next(service)
  await define(service, { format: 'TYPO-{value}' })
  await define(service, { format: 'RE-{value}' })
  await define(service, { format: 'TYPO-{value}' })
  expect((await next(service)).formatted).toBe('TYPO-2')
  const back = { definition: { format: 'INV-{value}' } }
  expect(await service.refusal(DEFINE, back)).toMatchObject({ argument: 'definition.format' })
})

it('gives a used sequence that returns to the default a format for the unnamed group only', async () => {
  const service = await startService()
  await define(service, { format: 'INV-{value}' })
  expect((await next(service)).formatted).toBe('INV-1')
  for (const _ of upTo(2)) {
    const { defineSequence } = await define(service, { format: null })
    expect(defineSequence.format).toBe('{value}')
  }
  expect((await next(service)).formatted).toBe('2')
  // Its text would be INV-1 again.
  expect(await service.refusal(NEXT, { group: 'INV' })).toEqual({ code: 'BAD_USER_INPUT', argument: 'group' })
})

it('changes the format in use a hundred times, and no more', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  const key = { namespace: 'n', name: 's' }
  for (const time of upTo(100)) {
    await sequences.define(key, { format: `${'x'.repeat(time)}{value}` })
    await sequences.next({ namespace: 'n', sequence: 's', group: '' }, 1)
  }
  await sequences.define(key, { format: 'last: {value}' })
  await sequences.next({ namespace: 'n', sequence: 's', group: '' }, 1)
  await expect(sequences.define(key, { format: 'x{value}' })).rejects.toMatchObject({
    code: 'BAD_USER_INPUT',
    details: { argument: 'definition.format' },
  })
  await sequences.define(key, { maxValue: 1000 })
})
