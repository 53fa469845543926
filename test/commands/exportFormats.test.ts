// @module-tag slow
import { execFileSync } from 'node:child_process'
import { readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { run } from '../../src/commands/export.ts'
import { createProgress } from '../../src/commands/files.ts'
import { grantOf } from '../../src/rules/rights.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import {
  exported,
  failureOf,
  imported,
  readText,
  runCommand,
  startCommand,
} from '../support/server/transfer.ts'

const inDefault = (name: string) => ({ namespace: 'default', name })

it('nth export --format csv: writes names and values, and reads them again', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const { counters, sequences } = openTestNth(one)
  const names = ['plain', 'a,b', 'say "n"', ' space ', '\u2028', '\ufeff']
  for (const [index, name] of names.entries()) await counters.reset(inDefault(name), index - 2)
  await sequences.next({ namespace: 'default', sequence: 's', group: '' }, 4)
  await sequences.next({ namespace: 'default', sequence: 's', group: 'MYBOARD' }, 9)
  const csv = await exported(one, '--format', 'csv')
  expect(csv.split('\r\n')).toEqual([
    'type,namespace,name,group,period,value',
    'counter,default,plain,,,-2',
    'counter,default,"a,b",,,-1',
    'counter,default,"say ""n""",,,0',
    'counter,default," space ",,,1',
    'counter,default,"\u2028",,,2',
    'counter,default,"\ufeff",,,3',
    'sequenceGroup,default,s,,0,4',
    'sequenceGroup,default,s,MYBOARD,0,9',
    '',
  ])
  expect((await imported(other, csv)).errors).toBe('Counters: 6 created.\nSequence groups: 2 created.\n')
  const sorted = (text: string) => text.split('\r\n').toSorted()
  expect(sorted(await exported(other, '--format', 'csv'))).toEqual(sorted(csv))
  const copy = openTestNth(other)
  expect(
    await copy.sequences.next({ namespace: 'default', sequence: 's', group: 'MYBOARD' }, 1),
  ).toMatchObject({
    issued: { value: 10 },
  })
})

it('nth export --format csv: escapes names that a spreadsheet would take for formulas, and reads them again', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const { counters, sequences } = openTestNth(one)
  const names = [
    '=HYPERLINK("http://evil.example")',
    '+1+1',
    '-1',
    '@SUM(1)',
    '＝1',
    "'",
    "'=1",
    "''a",
    'a;=1+1',
    "a;'b;",
    'plain',
  ]
  for (const [index, name] of names.entries()) await counters.reset(inDefault(name), index)
  await sequences.next({ namespace: '=n', sequence: '+s', group: '@g' }, 4)
  const csv = await exported(one, '--format', 'csv')
  expect(csv.split('\r\n')).toEqual([
    'type,namespace,name,group,period,value',
    `counter,default,"'=HYPERLINK(""http://evil.example"")",,,0`,
    "counter,default,'+1+1,,,1",
    "counter,default,'-1,,,2",
    "counter,default,'@SUM(1),,,3",
    "counter,default,'＝1,,,4",
    "counter,default,',,,5",
    "counter,default,''=1,,,6",
    "counter,default,''a,,,7",
    `counter,default,"a;'=1+1",,,8`,
    `counter,default,"a;'b;",,,9`,
    'counter,default,plain,,,10',
    "sequenceGroup,'=n,'+s,'@g,0,4",
    '',
  ])
  expect((await imported(other, csv)).errors).toBe('Counters: 11 created.\nSequence groups: 1 created.\n')
  const sorted = async (target: typeof one) =>
    (await exported(target, '--format', 'csv')).split('\r\n').toSorted()
  expect(await sorted(other)).toEqual(await sorted(one))
  const warned = await runCommand(one, ['export', '--format', 'csv', '--spreadsheet'])
  expect(warned.output).toBe(csv)
  expect(warned.errors).toMatch(
    /^--spreadsheet has no effect any more: every CSV is safe for spreadsheets\.\n/,
  )
})

it.each([
  ['name,value\nhome,12\n"a,b",3\n', 'default'],
  ['\ufeffname,value\r\nhome,12\r\n\r\n"a,b",3\r\n', 'default'],
  ['Value,Name\n12,home\n3,"a,b"', 'default'],
  ['name;value\nhome;12\na,b;3\n', 'default'],
  ['sep=;\r\nname;value\r\nhome;12\r\na,b;3\r\n', 'default'],
  ['\ufeff"sep=\t"\nname\tvalue\nhome\t12\na,b\t3\n', 'default'],
  ['\ufeffname\tvalue\r\nhome\t12\r\na,b\t3\r\n', 'default'],
  ['namespace,name,value\nhits,home,12\nhits,"a,b",3\n', 'hits'],
])('nth import: reads the CSV of a hit counter, %j', async (csv, namespace) => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  expect((await runCommand(target, ['import', '-'], csv)).errors).toBe('Counters: 2 created.\n')
  expect((await counters.read({ namespace, name: 'home' })).value).toBe(12)
  expect((await counters.read({ namespace, name: 'a,b' })).value).toBe(3)
  const change = await counters.incrementBy({ namespace, name: 'home' }, 1, { wantsPeriodValues: true })
  expect([change.value, change.valuesIn?.DAY]).toEqual([13, 1])
})

it('nth export --output: writes a file whole or not at all, and ends quietly when its reader does', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(inDefault('a'), 1)
  const path = join(await temporaryDirectory(), 'nth.csv')
  const { code, errors } = await runCommand(target, ['export', '--output', path])
  expect([code, errors]).toEqual([
    0,
    'The export has only the values of counters, and the last numbers of sequence groups in their present periods.\n',
  ])
  expect(await readText(path)).toContain('counter,default,a,,,1')
  expect(await readdir(dirname(path))).toEqual(['nth.csv'])
  const failed = await runCommand(target, ['export', '--output', join(path, 'x')])
  expect([failed.code, failed.output]).toEqual([1, ''])
  const { child, ended } = startCommand(target, ['export'])
  child.stdout?.destroy()
  expect(await ended).toMatchObject({ code: 0, errors: '' })
})

it('nth export: leaves out secrets and internal ids', async () => {
  const target = await freshDatabase()
  const { counters, apiKeys } = openTestNth(target)
  await query(
    target,
    'alter table counter auto_increment = 918273',
    'alter table namespace auto_increment = 817263',
  )
  const none = { origins: null, perMinute: null, documents: null, expiresAt: null }
  const { secret } = await apiKeys.create(
    { label: 'secret label', grants: [grantOf('ADD')], ...none },
    'ADMIN',
  )
  await counters.incrementBy(inDefault('a'), 1)
  const text = await exported(target)
  for (const part of [secret, 'secret label', '918273', '817263', 'revision', 'version":5'])
    expect(text).not.toContain(part)
})

it('nth export: shows a bar on a terminal, and nothing elsewhere', () => {
  const written: string[] = []
  let now = 0
  const progress = createProgress(
    { isTTY: true, columns: 80, write: (text) => written.push(text) },
    () => now,
  )
  now = 1000
  progress.show(500, 0.5)
  progress.clear()
  expect(written).toEqual([
    `\r\x1b[K[${'#'.repeat(15)}${' '.repeat(15)}] 50 % 500 entries, 500/s`,
    '\r\x1b[K',
  ])
  const silent = createProgress({ write: () => expect.unreachable() }, () => 0)
  silent.show(1, 1)
  silent.clear()
})

it('nth export: says which formats there are', async () => {
  expect(await failureOf(run, ['--format', 'xml'])).toBe('--format must be jsonl or csv; it is "xml".')
})

it('nth export --output: writes to a pipe, and to nothing else that is there', async () => {
  const target = await freshDatabase()
  const directory = await temporaryDirectory()
  const [pipe = '', file = '', link = '', dangling = ''] = ['pipe', 'file', 'link', 'dangling'].map((name) =>
    join(directory, name),
  )
  execFileSync('mkfifo', [pipe])
  const reader = readText(pipe)
  expect((await runCommand(target, ['export', '--output', pipe])).code).toBe(0)
  expect(await reader).toMatch(/^\{"type":"nth".*\n\{"type":"end","lines":0\}\n$/)
  expect((await stat(pipe)).isFIFO()).toBe(true)
  await writeFile(file, 'old')
  await symlink('file', link)
  await symlink('nowhere', dangling)
  for (const path of [file, link, dangling])
    expect(await runCommand(target, ['export', '--output', path])).toMatchObject({
      code: 1,
      errors: `${path} exists; give the name of a new file.\n`,
    })
  expect(await readText(file)).toBe('old')
  expect((await readdir(directory)).toSorted()).toEqual(['dangling', 'file', 'link', 'pipe'])
})
