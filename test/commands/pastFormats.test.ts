// @module-tag slow
import { expect, it } from 'vitest'
import { KEY } from '../support/client/sequenceCalls.ts'
import { freshDatabase } from '../support/database/database.ts'
import { defaults } from '../support/model/sequenceModel.ts'
import { openTestNth } from '../support/server/nth.ts'
import { entriesIn, exported, fileWith, type Line, restored } from '../support/server/transfer.ts'

const named = { namespace: 'n', sequence: 's', group: 'a' }

function sequenceLine(definition: object, formatHistory: object[] = []): Line {
  const createdAt = '2026-11-20T00:00:00.000Z'
  const line = { type: 'sequence', ...KEY, definition: { ...defaults, ...definition }, isDefined: true }
  return { ...line, formatHistory, createdAt }
}

function groupLine(group: string): Line {
  const period = { period: 0, lastValue: 3, nextValue: null, generation: 0 }
  const latest = { period: 0, format: null, timeZone: 'UTC', isCurrent: true }
  return { type: 'sequenceGroup', namespace: 'n', sequence: 's', group, latest, periods: [period] }
}

it('nth restore: takes the past formats of a file of an earlier version, and exports them as skeletons', async () => {
  const past = {
    format: 'RE-{value}',
    restartEvery: null,
    isDescending: false,
    isSigned: false,
    isMixed: false,
  }
  const groups = { isNamed: false, isUnnamed: true }
  const file = fileWith([sequenceLine({ format: 'INV-{value}' }, [{ ...past, groups }]), groupLine('')])
  const target = await freshDatabase()
  expect(await restored(target, file)).toMatchObject({ code: 0 })
  const again = await freshDatabase()
  expect(await restored(again, await exported(target))).toMatchObject({ code: 0 })
  for (const each of [target, again]) {
    const { sequences } = openTestNth(each)
    const change = sequences.define(KEY, { format: 'RE-{value:3}' })
    await expect(change).rejects.toMatchObject({ details: { argument: 'definition.format' } })
    expect(entriesIn(await exported(each)).find(({ type }) => type === 'sequence')).toMatchObject({
      formatHistory: [],
      pastFormats: ['RE-#'],
    })
  }
})

it('nth restore: lets named groups of an earlier version go on, whose format does not show them', async () => {
  const target = await freshDatabase()
  const file = fileWith([sequenceLine({ format: 'X-{value}' }), groupLine('a')])
  expect(await restored(target, file)).toMatchObject({ code: 0 })
  const again = await freshDatabase()
  expect(await restored(again, await exported(target))).toMatchObject({ code: 0 })
  for (const each of [target, again]) {
    const { sequences } = openTestNth(each)
    expect((await sequences.next(named, 1)).issued.value).toBe(4)
    const { definition } = await sequences.define(KEY, { format: 'X-{value}', allowRepeats: false })
    expect(definition?.allowRepeats).toBe(true)
  }
})

it('nth restore: takes a definition whose groups could issue the same text, as an earlier version has it', async () => {
  const target = await freshDatabase()
  const definition = { format: 'INV{group}{value:4}' }
  expect(await restored(target, fileWith([sequenceLine(definition), groupLine('1')]))).toMatchObject({
    code: 0,
  })
  const { sequences } = openTestNth(target)
  expect(await sequences.define(KEY, definition)).toMatchObject({ definition })
  expect((await sequences.next(named, 1)).issued.value).toBe(1)
})

it('nth restore: refuses a file with a past format that is none', async () => {
  const past = { format: '{value', restartEvery: null, isDescending: false, isSigned: false, isMixed: false }
  const groups = { isNamed: false, isUnnamed: true }
  const { code, errors } = await restored(
    await freshDatabase(),
    fileWith([sequenceLine({}, [{ ...past, groups }])]),
  )
  expect([code, errors]).toEqual([
    1,
    expect.stringContaining('formatHistory.0.format: has a { that is not closed'),
  ])
})
