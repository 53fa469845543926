// @module-tag slow
import { expect, it } from 'vitest'
import { run as runImport } from '../../src/commands/import.ts'
import { periodKeyOf } from '../../src/rules/calendar.ts'
import { grantOf } from '../../src/rules/rights.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import {
  counterLine,
  exported,
  failureOf,
  fileWith,
  imported,
  type Line,
  runCommand,
} from '../support/server/transfer.ts'

const a = { namespace: 'default', name: 'a' }
const NAME = { namespace: 'default', name: 's' }
const KEY = { namespace: 'default', sequence: 's', group: '' }

/** A database, its operations, and what an import into it prints. */
async function open() {
  const target = await freshDatabase()
  const printed = async (file: string, ...options: string[]) => {
    const { code, errors } = await imported(target, file, ...options)
    return `${errors}${code}`
  }
  return { target, printed, ...openTestNth(target) }
}

const withoutInstant = (text: string) => text.slice(text.indexOf('\n'))
const outcome = (kind: string, ...outcomes: string[]) => `${kind}: ${outcomes.join(', ')}.\n0`
const groupLine = (lastValue: number | null, fields: object = {}): Line => ({
  type: 'sequenceGroup',
  ...KEY,
  latest: { period: 0, lastValue, format: null, timeZone: 'UTC', isCurrent: true },
  periods: [{ period: 0, lastValue, nextValue: null, generation: 0, createdAt: null, updatedAt: null }],
  ...fields,
})

it('nth import: sets a counter to the greater of present and given, as reset does', async () => {
  const { counters, printed } = await open()
  const steps: [number, number, string][] = [
    [-7, -7, '1 created'],
    [-7, -7, '1 kept'],
    [-9, -7, '1 kept'],
    [0, 0, '1 raised'],
    [5, 5, '1 raised'],
    [3, 5, '1 kept'],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, '1 raised'],
  ]
  for (const [value, present, expected] of steps) {
    expect(await printed(fileWith([counterLine('a', value)]))).toBe(outcome('Counters', expected))
    expect((await counters.read(a)).value).toBe(present)
  }
  expect(await counters.valueIn(await counters.read(a), 'DAY')).toBe(0)
  expect(await printed('name,value\nzero,0\nb,-3')).toBe(outcome('Counters', '2 created'))
  expect(await counters.read({ ...a, name: 'zero' })).toMatchObject({ value: 0, updatedAt: expect.any(Date) })
})

it('nth import: changes no total of a period, and counts on from the raised value', async () => {
  const { counters, printed } = await open()
  await counters.incrementBy(a, 4)
  const today = `${new Date().toISOString().slice(0, 10)}T00:00:00Z`
  const file = fileWith([counterLine('a', 50, { history: { DAY: [[today, 40]] } })])
  expect(await printed(file)).toBe('Counters: 1 raised.\nTotals of periods: 1 left behind.\n0')
  const change = await counters.incrementBy(a, 1, { wantsPeriodValues: true })
  expect([change.value, change.valuesIn?.DAY]).toEqual([51, 5])
})

it('nth import: raises the sum of all slots', async () => {
  const { counters, printed } = await open()
  await counters.define(a, { slots: 16 })
  for (const _ of upTo(40)) await counters.incrementBy(a, 1)
  expect(await printed('name,value\na,39')).toBe(outcome('Counters', '1 kept'))
  expect(await printed('name,value\na,50')).toBe(outcome('Counters', '1 raised'))
  for (const _ of upTo(40)) await counters.incrementBy(a, 1)
  expect((await counters.read(a)).value).toBe(90)
})

it('nth import: defines counters and sequences that do not exist as in the file, and leaves those that do as they are', async () => {
  const [from, to] = [await open(), await open()]
  await from.namespaces.define('n', { timeZone: 'Asia/Tokyo', periods: [{ period: 'DAY' }] })
  await from.counters.reset(a, 40)
  await from.counters.define(a, { minValue: 10, maxValue: 50, slots: null })
  await from.counters.define({ namespace: 'n', name: 'slots' }, { slots: 4 })
  await from.counters.incrementBy({ namespace: 'n', name: 'slots' }, 3)
  await from.counters.reset({ namespace: 'n', name: 'debt' }, -5)
  await from.counters.define({ namespace: 'n', name: 'debt' }, { maxValue: -1, overflow: 'SATURATE' })
  await from.sequences.define(NAME, { startValue: 100, step: 10, format: 'S-{value}' })
  await from.sequences.next(KEY, 2)
  const text = await exported(from.target)
  const dry = await to.printed(text, '--dry-run')
  expect(await exported(to.target).then(withoutInstant)).toBe('\n{"type":"end","lines":0}\n')
  const created = await to.printed(text)
  expect(created).toMatch(
    /^Namespaces: 2 created.\nCounters: 3 created.\n(Totals .*\n)?Sequences: 1 created.\nSequence groups: 1 created.\n/,
  )
  expect(dry).toBe(`Dry run: nothing was changed.\n${created}`)
  for (const key of [a, { namespace: 'n', name: 'slots' }, { namespace: 'n', name: 'debt' }]) {
    const [{ value, definition }, copy] = [await from.counters.read(key), await to.counters.read(key)]
    const { periods, ...rest } = definition ?? {}
    expect(copy).toMatchObject({ value, definition: rest })
    expect(copy.definition?.periods.map(({ period }) => period)).toEqual(periods?.map(({ period }) => period))
  }
  expect(await to.namespaces.read('n')).toMatchObject({ timeZone: 'Asia/Tokyo' })
  expect(await to.sequences.next(KEY, 1)).toMatchObject({ issued: { value: 120, format: 'S-{value}' } })
  expect(await to.printed(text)).toMatch(
    /^Namespaces: 2 kept.\nCounters: 3 kept.\n(Totals .*\n)?Sequences: 1 kept.\nSequence groups: 1 kept.\n/,
  )
  // Definitions here stay, and are named.
  await to.counters.define(a, { maxValue: 60 })
  await to.sequences.define(NAME, { step: 1 })
  await from.counters.reset(a, 45)
  const later = await to.printed(await exported(from.target))
  expect(later).toContain('counter "a" in "default": it has another definition here, which stays.\n')
  expect(later).toContain('sequence "s" in "default": it has another definition here, which stays.\n')
  expect(later).toContain('Counters: 1 raised, 2 kept.\n')
  expect((await to.counters.read(a)).definition?.maxValue).toBe(60)
})

it('nth import: changes nothing in a dry run of numbers that exist', async () => {
  const { counters, sequences, target, printed } = await open()
  await counters.incrementBy(a, 2)
  await counters.define({ ...a, name: 'slots' }, { slots: 4 })
  await sequences.next(KEY, 3)
  const csv = 'type,name,value\ncounter,a,9\ncounter,slots,9\nsequenceGroup,s,9\n'
  const before = withoutInstant(await exported(target))
  const dry = await printed(csv, '--dry-run')
  expect(dry).toBe('Dry run: nothing was changed.\nCounters: 2 raised.\nSequence groups: 1 raised.\n0')
  expect(withoutInstant(await exported(target))).toBe(before)
  expect((await sequences.next(KEY, 1)).issued.value).toBe(4)
  expect(`Dry run: nothing was changed.\n${await printed(csv)}`).toBe(dry)
  expect((await counters.read(a)).value).toBe(9)
})

it('nth import: refuses what is outside of bounds, and applies the rest', async () => {
  const { counters, sequences, printed } = await open()
  await counters.define(a, { maxValue: 20 })
  await sequences.define(NAME, { maxValue: 9 })
  const csv = 'type,name,value\ncounter,a,21\ncounter,b,3\nsequenceGroup,s,10\n'
  const expected = `Line 2: counter "a" in "default": Limit reached: 21 is above the maximum of 20. Nothing was changed.
Line 4: group "" of sequence "s" in "default": 10 is outside the bounds of this sequence: the limit is 9. Nothing was changed.
Counters: 1 created, 1 refused.\nSequence groups: 1 refused.\n1`
  const dry = await printed(csv, '--dry-run')
  expect(dry).toBe(expected.replace('Counters: ', 'Dry run: nothing was changed.\nCounters: '))
  expect(await printed(csv)).toBe(expected)
  expect((await counters.readMany([a, { ...a, name: 'b' }])).map(({ value }) => value)).toEqual([0, 3])
})

it('nth import: never steps back in a sequence, whatever its direction, nor repeats a number', async () => {
  const { sequences, printed } = await open()
  await sequences.define(NAME, { step: -2, startValue: 100 })
  await sequences.next(KEY, 11)
  const raised = (lastValue: number) => printed(fileWith([groupLine(lastValue)]))
  expect(await raised(90)).toBe(outcome('Sequence groups', '1 kept'))
  expect((await sequences.next(KEY, 1)).issued.value).toBe(78)
  expect(await raised(60)).toBe(outcome('Sequence groups', '1 raised'))
  expect(await raised(60)).toBe(outcome('Sequence groups', '1 kept'))
  expect((await sequences.next(KEY, 1)).issued.value).toBe(58)
  const restarted = { period: 0, lastValue: 58, nextValue: 40, generation: 1 }
  expect(await printed(fileWith([groupLine(58, { periods: [restarted] })]))).toContain('1 raised')
  expect((await sequences.next(KEY, 1)).issued.value).toBe(40)
})

it('nth import: gives the same with a definition before or after a CSV', async () => {
  const [before, after] = [await open(), await open()]
  const csv = 'type,name,group,value\nsequenceGroup,s,,41\nsequenceGroup,s,g,7\n'
  const definition = { gapless: true, format: 'INV-{group}/{value:4}', startValue: 1000 }
  await before.sequences.define(NAME, definition)
  expect(await before.printed(csv)).toBe(outcome('Sequence groups', '2 created'))
  expect(await after.printed(csv)).toBe(outcome('Sequence groups', '2 created'))
  await after.sequences.define(NAME, definition)
  for (const { sequences, printed } of [before, after]) {
    expect(await sequences.readSequenceGroup(KEY)).toMatchObject({
      lastValue: 41,
      lastFormatted: 'INV-/0041',
      nextValue: 42,
    })
    const page = { prefix: '', limit: 10, fromEnd: false }
    const { items: listed } = await sequences.listSequenceGroups(NAME, page)
    expect(listed.map(({ group, lastFormatted }) => [group, lastFormatted])).toEqual([
      ['', 'INV-/0041'],
      ['g', 'INV-g/0007'],
    ])
    // It has reserved nothing yet.
    expect(await printed(csv.replace('41', '43'))).toBe(outcome('Sequence groups', '1 raised', '1 kept'))
    const reservation = await sequences.reserve(KEY, 1000)
    expect(reservation.formatted).toBe('INV-/0044')
    // Then 45 to 50 would be missing.
    const refused = await printed(csv.replace('41', '50'))
    expect(refused).toContain(
      'This gapless sequence group has reserved numbers in the period, and continues them.',
    )
    await sequences.release(reservation.token)
    expect(await printed(csv.replace('41', '50'))).toBe(refused)
    expect(await printed(csv.replace('41', '50'), '--dry-run')).toContain('1 kept, 1 refused')
    expect((await sequences.reserve(KEY, 1000)).value).toBe(44)
  }
})

it('nth import: raises a gapless group in a new period, after others have issued numbers', async () => {
  const { sequences, printed, target } = await open()
  await sequences.define(NAME, { gapless: true, restartEvery: 'YEAR', format: '{yyyy}-{value}' })
  await sequences.reserve(KEY, 1000)
  await query(
    target,
    'update reservation set period_key = 2020',
    'update sequence_value set period_key = 2020',
    'update sequence_group set latest_period_key = 2020',
  )
  const year = new Date().getUTCFullYear()
  expect(await printed(`type,name,period,value\nsequenceGroup,s,${year},6\n`)).toContain('1 raised')
  expect((await sequences.reserve(KEY, 1000)).formatted).toBe(`${year}-7`)
})

it('nth import: raises a group in the period that its line names: the present one or a later one', async () => {
  const { sequences, printed, target } = await open()
  await sequences.define(NAME, { restartEvery: 'MONTH', format: '{yyyy}-{MM}-{value}' })
  const present = periodKeyOf('MONTH', 'UTC', new Date())
  const rows = [
    [present, 5],
    [present + 100, 9],
    [present - 100, 77],
  ] as const
  const csv = ['type,name,period,value', ...rows.map((row) => `sequenceGroup,s,${row.join(',')}`)].join('\n')
  const printedOnce = 'Sequence groups: 1 created, 1 raised, 1 left behind.\n0'
  expect(await printed(csv)).toBe(printedOnce)
  expect((await sequences.next(KEY, 1)).issued.value).toBe(6)
  const stored = await query(target, 'select period_key, value from sequence_value order by period_key')
  expect(stored).toEqual([
    { period_key: present, value: 6 },
    { period_key: present + 100, value: 9 },
  ])
  const other =
    'type,name,period,value\nsequenceGroup,s,2026,5\nsequenceGroup,t,202611,5\nsequenceGroup,s,,5\n'
  const errors = await printed(other)
  expect(errors).toContain('The period 2026 is not one of this sequence, which restarts every month.')
  expect(errors).toContain('The period 202611 is not one of this sequence, which does not restart.')
  expect(errors).toContain('The period 0 is not one of this sequence, which restarts every month.')
  // What is refused creates nothing.
  expect((await sequences.read({ ...NAME, name: 't' })).definition).toBeUndefined()
})

it('nth export --format csv: has a line for the present period, and one for the latest if that is later', async () => {
  const { sequences, target } = await open()
  const present = periodKeyOf('MONTH', 'UTC', new Date())
  await sequences.define(NAME, { restartEvery: 'MONTH', format: '{yyyy}{MM}-{group}/{value}' })
  for (const group of ['both', 'present', 'past']) await sequences.next({ ...KEY, group }, 3)
  await query(
    target,
    `insert into sequence_value (group_id, period_key, identity, value, updated_at)
     select id, ${present + 100}, identity, 8, utc_timestamp(3) from sequence_group where name = 'both'
     union all select id, ${present - 100}, identity, 9, utc_timestamp(3) from sequence_group`,
    `update sequence_group set latest_period_key = ${present + 100} where name = 'both'`,
    `delete from sequence_value where period_key = ${present} and group_id = (select id from sequence_group where name = 'past')`,
    `update sequence_group set latest_period_key = ${present - 100} where name = 'past'`,
  )
  const csv = await exported(target, '--format', 'csv')
  expect(csv.split('\r\n').slice(1)).toEqual([
    `sequenceGroup,default,s,both,${present},3`,
    `sequenceGroup,default,s,both,${present + 100},8`,
    `sequenceGroup,default,s,present,${present},3`,
    `sequenceGroup,default,s,past,${present - 100},9`,
    '',
  ])
  const copy = await open()
  await copy.sequences.define(NAME, { restartEvery: 'MONTH', format: '{yyyy}{MM}-{group}/{value}' })
  expect(await copy.printed(csv)).toBe('Sequence groups: 2 created, 1 raised, 1 left behind.\n0')
  expect(await exported(copy.target, '--format', 'csv')).toBe(
    csv.replace(/sequenceGroup,default,s,past.*\r\n/, ''),
  )
})

it('nth import: does not let a later format repeat texts of formats that were used elsewhere', async () => {
  const [from, to] = [await open(), await open()]
  await from.sequences.define(NAME, { format: 'A{value}' })
  await from.sequences.next(KEY, 5)
  await from.sequences.define(NAME, { format: 'B{value}' })
  await from.sequences.next(KEY, 1)
  expect(await to.printed(await exported(from.target))).toContain('Sequences: 1 created')
  await to.sequences.define(NAME, { format: 'C{value}' })
  await expect(to.sequences.define(NAME, { format: 'A{value}', step: -1 })).rejects.toThrow('could repeat')
  await expect(to.sequences.define(NAME, { format: 'B{value}', step: -1 })).rejects.toThrow('could repeat')
  expect((await to.sequences.next(KEY, 1)).issued.value).toBe(7)
})

it('nth import: logs what it has raised, and nothing of a dry run', async () => {
  const { target } = await open()
  const file = fileWith([counterLine('a', 1), counterLine('b', 2)])
  expect((await imported(target, file, '--dry-run')).audit).toEqual([])
  expect((await imported(target, file)).audit).toEqual([
    { field: 'nth import', by: expect.any(String), count: 2 },
  ])
})

it('nth import: counts what stays behind of a backup', async () => {
  const [from, to] = [await open(), await open()]
  await from.counters.countOnce(a, 'ann')
  await from.counters.countOnce(a, 'ben')
  await from.sequences.define(NAME, { gapless: true })
  for (const _ of 'abc') await from.sequences.reserve(KEY, 1000)
  await from.holds.hold('default', [{ name: 'a', delta: 3 }], { ttlMs: 60_000, longestMs: 60_000 })
  const grants = [grantOf('ADD')]
  const none = { origins: null, perMinute: null, documents: null, expiresAt: null }
  await from.apiKeys.create({ label: 'k', grants, ...none }, 'ADMIN')
  const text = await exported(from.target)
  const key = { type: 'apiKey', id: 1, hash: 'ab'.repeat(32), prefix: 'nth_x', label: 'k', grants, ...none }
  const times = { createdAt: '2026-11-01T00:00:00.000Z', revokedAt: null, lastUsedAt: null }
  const lines = text.trimEnd().split('\n')
  const backup = [...lines.slice(0, -1), JSON.stringify({ ...key, ...times })]
  const file = `${[...backup, JSON.stringify({ type: 'end', lines: backup.length - 1 })].join('\n')}\n`
  const printed = await to.printed(file)
  expect(printed.split('\n')).toEqual([
    'Namespaces: 1 created.',
    'Counters: 1 created.',
    'Totals of periods: 3 left behind.',
    'Sequences: 1 created.',
    'Sequence groups: 1 created.',
    'Reservations: 3 left behind.',
    'Parts of holds: 1 left behind.',
    'Subjects of counters: 2 left behind.',
    'API keys: 1 left behind.',
    '0',
  ])
  expect(await to.counters.read(a)).toMatchObject({ value: 2, held: 0 })
})

it('nth import: raises no counter whose value is missing, and says so', async () => {
  const { counters, sequences, printed, target } = await open()
  await counters.incrementBy(a, 7)
  await sequences.next(KEY, 7)
  await query(target, 'delete from counter_value', 'delete from sequence_value')
  const errors = await printed('type,name,value\ncounter,a,3\nsequenceGroup,s,3\n')
  expect(errors).toContain('The value of this counter is missing in the database.')
  expect(errors).toContain('The last number of this sequence group is missing in the database.')
})

it('nth import: refuses wrong arguments, --overwrite, and sizes, before anything is read', async () => {
  const target = await freshDatabase()
  const run = async (...args: string[]) => {
    const { code, errors } = await runCommand(
      target,
      ['import', ...args],
      'name,value\na,1\n'.repeat(100_000),
    )
    expect(code).toBe(1)
    return errors
  }
  for (const [args, message] of [
    [[], 'Give the file to import; see --help.'],
    [['a', 'b'], 'Unexpected argument "b".'],
    [
      ['/nowhere', '--overwrite'],
      expect.stringMatching(/^--overwrite is gone: nth import only raises numbers\. /),
    ],
    [['-', '--max-size', '0'], '--max-size must be a whole number from 1 to 9999999; it is "0".'],
  ] as const)
    expect(await failureOf(runImport, args)).toEqual(message)
  expect(await run('-', '--max-size', '1')).toBe(
    'The input is larger than 1 MiB. Give a file, or a larger --max-size.\n',
  )
})
