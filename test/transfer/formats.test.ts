import { execFileSync } from 'node:child_process'
import { lstat, readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { createProgress } from '../../src/commands/transfer/progress.ts'
import { filledUp, freshDatabase, query, urlOf } from '../support/database.ts'
import { openTestNth } from '../support/nth.ts'
import { temporaryDirectory } from '../support/nthProcess.ts'
import {
  counterLine,
  exported,
  fileOf,
  fileWith,
  imported,
  readText,
  runCommand,
  startCommand,
} from '../support/transfer.ts'

const inDefault = (name: string) => ({ namespace: 'default', name })

it('writes names and values as CSV, and reads them again', async () => {
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

it.each([
  ['name,value\nhome,12\n"a,b",3\n', 'default'],
  ['\ufeffname,value\r\nhome,12\r\n\r\n"a,b",3\r\n', 'default'],
  ['Value,Name\n12,home\n3,"a,b"', 'default'],
  ['namespace,name,value\nhits,home,12\nhits,"a,b",3\n', 'hits'],
])('reads the CSV of a hit counter: %j', async (csv, namespace) => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  expect((await runCommand(target, ['import', '-'], csv)).errors).toBe('Counters: 2 created.\n')
  expect((await counters.read({ namespace, name: 'home' })).value).toBe(12)
  expect((await counters.read({ namespace, name: 'a,b' })).value).toBe(3)
  const change = await counters.incrementBy({ namespace, name: 'home' }, 1, { wantsPeriodValues: true })
  expect([change.value, change.valuesIn?.DAY]).toEqual([13, 1])
})

it.each([
  ['', 'The file is empty; its first line must name its columns.'],
  ['name\na', 'Line 1: the column value is missing.'],
  [
    'name,value,color\na,1,red',
    'Line 1: unknown column "color"; supported: type, namespace, name, group, period, value.',
  ],
  ['name,value\na,1\nb', 'Line 3: 1 cells, but 2 columns.'],
  ['name,value\na,one', 'Line 2: value must be an integer from -(2^53-1) to 2^53-1; it is "one".'],
  [
    'name,value\na,9007199254740992',
    'Line 2: value must be an integer from -(2^53-1) to 2^53-1; it is "9007199254740992".',
  ],
  ['name,value\na,1\n"b\nc",2', 'Line 3: name must not contain control characters.'],
  ['name,value\na,1\n"b,2', 'Line 3: a quote is not closed.'],
  ['name,value\n,1', 'Line 2: name must not be empty.'],
  [
    fileWith([]).replace('"formatVersion":1', '"formatVersion":2'),
    'Line 1: this file has format 2, and this version of Nth reads up to 1. Use a later one.',
  ],
  ['{"a":1}\n', 'Line 1 is not that of an export of Nth.'],
  [
    fileWith([counterLine('a', 1)]).replace('"value":1', '"value":1.5'),
    'Line 2: value: Invalid input: expected int, received number.',
  ],
  [
    fileWith([counterLine('a', 1)]).replace('"value":1', '"value":9007199254740990.6'),
    'Line 2: 9007199254740990.6 is not an integer.',
  ],
  [
    fileWith([counterLine('a', 1), counterLine('b', 1)]).replace('"name":"b"', '"name":""'),
    'Line 3: name: must not be empty.',
  ],
  [fileWith([{ type: 'cat' }]), 'Line 2: it has no known type.'],
  [
    fileWith([counterLine('a', 1)]).replace('UTC', 'Nowhere'),
    'Line 2: definition.timeZone: must be the name of an IANA time zone, such as Europe/Berlin.',
  ],
  [`${fileWith([]).split('\n')[0]}\n{"type":`, 'Line 2 is not JSON.'],
])('says what is wrong with a file: %#', async (text, message) => {
  const target = await freshDatabase()
  const { code, errors } = await imported(target, text)
  expect([code, errors]).toEqual([1, `${message}\n`])
  expect(await query(target, 'select * from counter')).toEqual([])
})

it('says that a file is incomplete, or not UTF-8', async () => {
  const target = await freshDatabase()
  const file = fileWith([counterLine('a', 1), counterLine('b', 1)])
  const cut = file.split('\n').slice(0, 3).join('\n')
  expect(await imported(target, cut)).toMatchObject({
    code: 1,
    errors: expect.stringContaining('The file is incomplete: its last line is missing.'),
  })
  const bytes = Buffer.from(file)
  bytes[bytes.indexOf('"name":"a"') + 8] = 0xff
  expect(await imported(target, bytes)).toMatchObject({ code: 1, errors: 'Line 2 is not UTF-8.\n' })
})

it('changes nothing in a dry run, and says the same', async () => {
  const [from, to] = [await freshDatabase(), await freshDatabase()]
  const source = openTestNth(from)
  for (const name of ['a', 'b', 'c']) await source.counters.incrementBy(inDefault(name), 5)
  const exact = { namespace: 'default', sequence: 'exact', group: '' }
  await source.sequences.define({ namespace: 'default', name: 'exact' }, { gapless: true })
  await source.sequences.reserve(exact, 100)
  const { counters } = openTestNth(to)
  await counters.incrementBy(inDefault('a'), 2)
  await counters.incrementBy(inDefault('b'), 7)
  const text = await exported(from)
  const before = await exported(to)
  const dry = await imported(to, text, '--dry-run')
  const withoutInstant = (text: string) => text.slice(text.indexOf('\n'))
  expect(withoutInstant(await exported(to))).toBe(withoutInstant(before))
  expect(dry.errors).toBe(`Dry run: nothing was changed.\n${(await imported(to, text)).errors}`)
  expect(dry.errors).toContain('Counters: 1 created, 1 raised, 1 kept.')
})

it('imports the rows of another system, and refuses those that are wrong', async () => {
  const [target, foreign] = [await freshDatabase(), await freshDatabase({ migrated: false })]
  await query(
    foreign,
    'create table booksales (title varchar(60) character set utf8mb4, copies int)',
    `insert into booksales values ('Red Horse Hill', 412), ('Sparkplug of the Hornets', 87), ('Bücher', 3)`,
  )
  const from = (select: string, ...options: string[]) =>
    runCommand(target, ['import', '--from', urlOf(foreign), '--select', select, ...options])
  const sales = 'select title as name, copies as value from booksales'
  expect(await from(sales, '--namespace', 'booksales')).toMatchObject({
    code: 0,
    errors: 'Counters: 3 created.\n',
  })
  const { counters } = openTestNth(target)
  expect((await counters.read({ namespace: 'booksales', name: 'Red Horse Hill' })).value).toBe(412)
  expect((await counters.read({ namespace: 'booksales', name: 'Bücher' })).value).toBe(3)
  expect((await from(sales, '--namespace', 'booksales')).errors).toBe('Counters: 3 unchanged.\n')
  expect(await from('select title as name from booksales')).toMatchObject({
    code: 1,
    errors: expect.stringMatching(/^Row 1: the column value is missing; name columns as in/),
  })
  expect((await from("select title as name, 'x' as value from booksales")).errors).toMatch(
    /^Row 1: value must be/,
  )
  expect((await from('select null as name, 1 as value')).errors).toBe('Row 1: name is null.\n')
  expect((await from('delete from booksales')).errors).toMatch(/--select must be a select/)
  expect((await from('select nothing')).errors).toMatch(/^The database of --from: Unknown column/)
  expect(await query(foreign, 'select count(*) as count from booksales')).toEqual([{ count: 3 }])
})

it('writes a file whole or not at all, and ends quietly when its reader does', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await counters.incrementBy(inDefault('a'), 1)
  const path = join(await temporaryDirectory(), 'nth.csv')
  const { code, errors } = await runCommand(target, ['export', '--output', path])
  expect([code, errors]).toEqual([0, 'Left out: API keys, and results under idempotency keys.\n'])
  expect(await readText(path)).toContain('counter,default,a,,,1')
  expect(await readdir(dirname(path))).toEqual(['nth.csv'])
  const failed = await runCommand(target, ['export', '--output', join(path, 'x')])
  expect([failed.code, failed.output]).toEqual([1, ''])
  const { child, ended } = startCommand(target, ['export'])
  child.stdout?.destroy()
  expect(await ended).toMatchObject({ code: 0, errors: '' })
})

it('leaves out secrets and internal ids', async () => {
  const target = await freshDatabase()
  const { counters, apiKeys } = openTestNth(target)
  await query(
    target,
    'alter table counter auto_increment = 918273',
    'alter table namespace auto_increment = 817263',
  )
  const { secret } = await apiKeys.create({
    label: 'secret label',
    grants: [{ scopes: ['ADD'], namespace: null, names: null, prefix: '', maxDelta: 1, maxCount: 1 }],
    origins: null,
    perMinute: null,
    expiresAt: null,
  })
  await counters.incrementBy(inDefault('a'), 1)
  const text = await exported(target)
  for (const part of [secret, 'secret label', '918273', '817263', 'revision', 'version":5'])
    expect(text).not.toContain(part)
})

it('shows a bar on a terminal, and nothing elsewhere', () => {
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

it.each([
  [['export', '--format', 'xml'], '--format must be jsonl or csv; it is "xml".'],
  [['import'], 'Give the file to import; see --help.'],
  [['import', 'a', 'b'], 'Unexpected argument "b".'],
  [['import', 'a', '--select', 'select 1'], 'Give a file, or --from and --select.'],
  [['import', '--select', 'select 1'], '--select also needs --from.'],
  [['import', '--from', 'mysql://h/d'], '--from also needs --select.'],
  [
    ['import', '--from', 'http://h/d', '--select', 'x'],
    '--from must look like mysql://user:password@host:3306/nth.',
  ],
])('says what is wrong with %j', async (args, message) => {
  const { code, errors } = await runCommand(await freshDatabase(), args)
  expect([code, errors]).toEqual([1, `${message}\n`])
})

it('reads a long history in parts', async () => {
  const [one, other] = [await freshDatabase(), await freshDatabase()]
  const path = await fileOf(fileWith([counterLine('a', 1)]))
  await runCommand(one, ['import', path])
  await query(
    one,
    ...filledUp(2500),
    `insert into counter_history (counter_id, period, start, value)
     select c.id, 1, 1700000000 - 1700000000 % 3600 + 3600 * f.n, f.n from counter c, filled f`,
  )
  const text = await exported(one)
  expect(text).toContain('"type":"counterHistory"')
  expect((await imported(other, text)).errors).toContain('Counters: 1 created.')
  const lines = (text: string) => text.split('\n').slice(1)
  expect(lines(await exported(other))).toEqual(lines(text))
})

it('writes to a pipe, and through a link', async () => {
  const target = await freshDatabase()
  const directory = await temporaryDirectory()
  const [pipe, file, link] = ['pipe', 'file', 'link'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ]
  execFileSync('mkfifo', [pipe])
  const reader = readText(pipe)
  expect((await runCommand(target, ['export', '--output', pipe])).code).toBe(0)
  expect(await reader).toMatch(/^\{"type":"nth".*\n\{"type":"end","lines":0\}\n$/)
  expect((await stat(pipe)).isFIFO()).toBe(true)
  await writeFile(file, 'old')
  await symlink('file', link)
  expect((await runCommand(target, ['export', '--output', link])).code).toBe(0)
  expect((await lstat(link)).isSymbolicLink()).toBe(true)
  expect(await readText(file)).toContain('"type":"end"')
})

it.each([
  'create table t (a int)',
  'set global max_connections = 900',
  "select 1 as name, 2 as value into outfile '/tmp/nth-outfile'",
  'delete from x',
])('refuses what is not a select: %s', async (statement) => {
  const [target, foreign] = [await freshDatabase(), await freshDatabase({ migrated: false })]
  const { code, errors } = await runCommand(target, [
    'import',
    '--from',
    urlOf(foreign),
    '--select',
    statement,
  ])
  expect([code, errors]).toEqual([1, expect.stringContaining('--select must be a select')])
  expect(await query(foreign, 'show tables')).toEqual([])
})

it('says what an interrupted import leaves', async () => {
  const target = await freshDatabase()
  const lines = Array.from({ length: 20_000 }, (_, n) => counterLine(`c${n}`, n))
  const { child, ended } = startCommand(target, ['import', await fileOf(fileWith(lines))])
  await expect
    .poll(async () => (await query(target, 'select count(*) as n from counter'))[0]?.n)
    .toBeGreaterThan(0)
  child.kill('SIGINT')
  expect(await ended).toMatchObject({
    code: 'SIGINT',
    errors: 'Interrupted. What was imported stays; repeat the command to go on.\n',
  })
})
