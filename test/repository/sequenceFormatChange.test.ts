import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { DEFINE, define, KEY, NEXT, next } from '../support/client/sequenceCalls.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

it('defineSequence(format:): allows changes of a sequence in use that keep its numbers unique', async () => {
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

it('lastFormatted: shows the last number as it was written, whatever the format is now', async () => {
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
])('defineSequence: of a sequence in use: %j', async (definition, part) => {
  const service = await startService()
  await next(service, { count: 20 })
  if (part === undefined) return expect(await define(service, definition)).toBeDefined()
  const refused = { code: 'BAD_USER_INPUT', argument: `definition.${part}` }
  expect(await service.refusal(DEFINE, { definition })).toEqual(refused)
  expect((await next(service)).value).toBe(21)
})

it.each([
  [{}, '', '{value}0', 'N-{value}0'],
  [{ format: 'N{value}' }, '', 'N{value}0', 'A-N{value}0'],
  [{ format: 'T/{group}/{value}' }, 'G', 'T/{group}-{value}', 'N-T/{group}-{value}'],
])('defineSequence: suggests a format after %j, "%s", %s', async (first, group, format, suggested) => {
  const service = await startService()
  await define(service, first)
  await next(service, { group })
  const { errors } = await service.send(DEFINE, { name: 's', definition: { format } })
  expect(errors?.[0]?.message).toContain(`, such as ${JSON.stringify(suggested)}; or set allowRepeats.`)
  await define(service, { format: suggested })
  expect(await next(service, { group })).toMatchObject({ value: 2 })
})

it('defineSequence(format:): has no format to suggest where the texts of named groups may begin and end in any way', async () => {
  const service = await startService()
  await next(service, { group: 'A' })
  const { errors } = await service.send(DEFINE, { name: 's', definition: { format: 'T-{group}-{value}' } })
  expect(errors?.[0]?.message).toMatch(
    /issued as "\{group\}-#".*begins or ends with other characters than digits; or/,
  )
  await define(service, { format: 'T-{group}-{value}', allowRepeats: true })
  expect((await next(service, { group: 'A' })).formatted).toBe('T-A-2')
})

it('defineSequence(format:): counts no format in which nothing was issued', async () => {
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

it('defineSequence(format:): gives a used sequence that returns to the default a format for the unnamed group only', async () => {
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

it('defineSequence(format:): changes the format in use a hundred times, and no more', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  const issue = () => sequences.next({ namespace: 'n', sequence: 's', group: '' }, 1)
  await issue()
  const past = upTo(99).map((time) => `${'x'.repeat(time)}#`)
  await query(target, `update sequence set past_formats = '${JSON.stringify(past)}'`)
  await sequences.define(KEY, { format: 'last: {value}' })
  await issue()
  await expect(sequences.define(KEY, { format: 'more: {value}' })).rejects.toMatchObject({
    code: 'BAD_USER_INPUT',
    details: { argument: 'definition.format' },
  })
  await sequences.define(KEY, { maxValue: 1000 })
})
