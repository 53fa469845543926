import { mkdir, readdir, readlink, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, it, onTestFinished } from 'vitest'
import { checkAll, openFile } from '../../src/commands/source.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import {
  counterLine,
  fileOf,
  fileWith,
  imported,
  runCommand,
  startCommand,
} from '../support/server/transfer.ts'

type Target = Awaited<ReturnType<typeof freshDatabase>>

const NOT_UTF8 =
  'it is not UTF-8; save the file as UTF-8, or convert it, for example with iconv -f latin1 -t utf-8.'
const UTF16 =
  'The file is UTF-16, or not a text. Save it as UTF-8, or convert it, for example with iconv -f utf-16 -t utf-8.'
const QUOTES = 'a quote is not closed, is not doubled, or does not enclose the whole cell.'
const TIME = 'must be a time from 1970 to 9999, such as 2026-11-20T23:02:00.000Z.'
const INTEGER = 'value must be an integer from -(2^53-1) to 2^53-1; it is'
const CREATED = '"createdAt":"2026-11-01T00:00:00.000Z"'

const header = fileWith([]).split('\n')[0]
const utf16 = (text: string) => Buffer.from(text, 'utf16le')
const countersIn = (target: Target) => query(target, 'select * from counter')
/** A file with one counter, in which a text is replaced. */
const changed = (from: string, to: string) => fileWith([counterLine('a', 1)]).replace(from, to)

const group = (fields: object = {}) => ({
  type: 'sequenceGroup',
  namespace: 'default',
  sequence: 's',
  group: '',
  latest: null,
  periods: [],
  ...fields,
})
const period = { period: 0, lastValue: 9, nextValue: null, generation: 0, createdAt: null, updatedAt: null }
const latest = { period: 2 ** 32, format: null, timeZone: 'UTC', isCurrent: true }
const hash = 'ab'.repeat(16)
const subjects = (fields: object = {}) => ({
  type: 'counterSubjects',
  namespace: 'default',
  name: 'a',
  subjectSalt: hash,
  period: null,
  start: '1970-01-01T00:00:00Z',
  subjects: [{ subject: hash, value: 1, at: '2026-11-20T00:00:00.000Z', valuesIn: {}, ...fields }],
})
const total = ['2026-10-01T00:00:00Z', 1]

it.each<[string | Buffer, ...string[]]>([
  ['', 'The file is empty; its first line must name its columns.'],
  ['name,value\n', 'The file has no line after the one that names its columns.'],
  ['name\na', 'Line 1: the column value is missing.'],
  [
    'name,value,color\na,1,red',
    'Line 1: unknown column "color"; supported: type, namespace, name, group, period, value.',
  ],
  ['name,value,name\na,1,b', 'Line 1: the column name occurs twice.'],
  ['name,value\na,1\nb', 'Line 3: 1 cells, but 2 columns.'],
  ['name,value\na,one', `Line 2: ${INTEGER} "one".`],
  ['name,value\na,9007199254740992', `Line 2: ${INTEGER} "9007199254740992".`],
  ['name,value\na\0,1\nb,2', 'Line 2: name must not contain control characters.'],
  ['name,value\na,1\n"b\nc",2', `Line 3: ${QUOTES}`, `Line 4: ${QUOTES}`],
  ['name,value\na,1\n"b,2\n"c"d,3', `Line 3: ${QUOTES}`, `Line 4: ${QUOTES}`],
  ['name,value\na"b,1\n "c",2', `Line 2: ${QUOTES}`, `Line 3: ${QUOTES}`],
  ['name,value\n,1', 'Line 2: name must not be empty.'],
  ['name,value,group\na,1,g', 'Line 2: a counter has no group and no period.'],
  ['name,value\ra,1\r', 'Line 1: it contains a CR; lines must end with LF or CR LF.'],
  ['name,value\na,1\nb,2\na,3', 'Line 4: counter "a" in "default" is also in line 2.'],
  [`name,value\n${'a'.repeat(2 ** 17)},1`, 'Line 2: it is longer than 65536 characters.'],
  [`name,value\n${'a'.repeat(2 ** 24 + 1)},1`, 'Line 2: it is longer than 16777216 bytes.'],
  [Buffer.from('name,value\na,1\ncaf\xe9,2\nb,3', 'latin1'), `Line 3: ${NOT_UTF8}`],
  [Buffer.from('n\xe4me,value\na,1', 'latin1'), `Line 1: ${NOT_UTF8}`],
  [utf16('\ufeffname,value\na,1'), UTF16],
  [utf16('\ufeffname,value\na,1').swap16(), UTF16],
  [utf16('name,value\na,1'), UTF16],
  [utf16(`\ufeff${fileWith([])}`), UTF16],
  [
    gzipSync('name,value\na,1'),
    'The file is compressed. Import its content, for example with gunzip -c file | nth import -.',
  ],
  [
    fileWith([]).replace('"formatVersion":1', '"formatVersion":3'),
    'Line 1: this file has format 3, and this version of Nth reads up to 2. Use a later one.',
  ],
  ['{"a":1}\n', 'Line 1 is not the first line of an export of Nth.'],
  [changed('"value":1', '"value":"1"'), 'Line 2: value: Invalid input: expected number, received string.'],
  [changed('"value":1', '"value":9007199254740990.6'), 'Line 2: it has a number that is not an integer.'],
  [changed('"value":1', '"value":1,"color":2'), 'Line 2: it has an unknown member "color".'],
  [changed('"slots":1', '"slots":1,"color":2'), 'Line 2: definition has an unknown member "color".'],
  [changed('"history":{}', '"history":{"MINUTE":[]}'), 'Line 2: history has an unknown member "MINUTE".'],
  [
    changed('UTC', 'Nowhere'),
    'Line 2: definition.timeZone: must be the name of an IANA time zone, such as Europe/Berlin.',
  ],
  ...[
    '1969-12-31T23:59:59.999Z',
    '+010000-01-01T00:00:00.000Z',
    '2026-11-01T00:00',
    '2026-02-30T00:00:00Z',
  ].map((at): [string, string] => [changed(CREATED, `"createdAt":"${at}"`), `Line 2: createdAt: ${TIME}`]),
  [
    fileWith([counterLine('a', 1, { history: { DAY: [total, total] } })]),
    'Line 2: history.DAY: repeats a period.',
  ],
  [fileWith([group({ periods: [period, period] })]), 'Line 2: periods: repeats a period.'],
  [fileWith([group({ latest })]), 'Line 2: latest.period: Too big: expected number to be <=4294967295.'],
  [
    fileWith([counterLine('a', 1), group(), group()]),
    'Line 4: group "" of sequence "s" in "default" is also in line 3.',
  ],
  [fileWith([{ type: 'cat' }]), 'Line 2: its type is unknown.'],
  [
    fileWith([subjects({ subject: 'ann' }), subjects({ value: '1' }), subjects({ at: 'now' })]),
    'Line 2: subjects.0.subject: must be 32 hexadecimal digits.',
    'Line 3: subjects.0.value: Invalid input: expected number, received string.',
    `Line 4: subjects.0.at: ${TIME}`,
  ],
  [
    fileWith([
      { ...subjects(), subjectSalt: 'salt' },
      { ...subjects(), subjects: [] },
    ]),
    'Line 2: subjectSalt: must be 32 hexadecimal digits.',
    'Line 3: subjects: Too small: expected array to have >=1 items.',
  ],
  [
    fileWith([counterLine('a', 1), counterLine('', 1), counterLine('b', 1)]),
    'Line 3: name: must not be empty.',
  ],
  [`${header}\n{"type":`, 'Line 2: it is not JSON.', 'The file is incomplete: its last line is missing.'],
  [`${fileWith([])}${fileWith([])}`, 'Line 3: nothing may follow the last line of an export.'],
  [
    fileWith([counterLine('a', 1), counterLine('b', 1)]).replace(/.*"a".*\n/, ''),
    'Line 3: the export wrote 2 lines between the first and this one, but the file has 1.',
  ],
])('nth import: says what is wrong with a file, %#', async (text, ...faults) => {
  const source = await openFile(await fileOf(text))
  onTestFinished(source.close)
  const last = `Nothing was applied. Faults: ${faults.length}.`
  await expect(checkAll(source)).rejects.toThrow(new Error([...faults, last].join('\n')))
})

it('nth import: finds a name of a long file that occurs twice', async () => {
  const rows = upTo(100_000).map((n) => `c${n},${n}\n`)
  const source = await openFile(await fileOf(`name,value\n${rows.join('')}c7,1\nc99999,1\n`))
  onTestFinished(source.close)
  const fault = (name: string, line: number) => `counter "${name}" in "default" is also in line ${line}.`
  await expect(checkAll(source)).rejects.toThrow(
    `Line 100002: ${fault('c7', 8)}\nLine 100003: ${fault('c99999', 100_000)}\nNothing was applied. Faults: 2.`,
  )
})

it('nth import: applies nothing of a long file whose end is wrong or missing', async () => {
  const target = await freshDatabase()
  const rows = upTo(1301).map((n) => `c${n},${n}\n`)
  expect(await imported(target, `name,value\n${rows.join('')}c,x\n`)).toMatchObject({
    code: 1,
    errors: `Line 1303: ${INTEGER} "x".\nNothing was applied. Faults: 1.\n`,
  })
  const whole = fileWith(upTo(700).map((n) => counterLine(`c${n}`, n)))
  const cut = whole.slice(0, whole.lastIndexOf('{'))
  const errors = 'The file is incomplete: its last line is missing.\nNothing was applied. Faults: 1.\n'
  expect(await imported(target, cut)).toMatchObject({ code: 1, errors })
  expect(await runCommand(target, ['import', '-'], cut)).toMatchObject({ code: 1, errors })
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'nth.jsonl'), cut)
  expect(await runCommand(target, ['restore', directory])).toMatchObject({ code: 1, output: '', errors })
  expect(await countersIn(target)).toEqual([])
})

it('nth import: lists the first twenty faults, and counts all', async () => {
  const target = await freshDatabase()
  const rows = upTo(1000).map((n) => (n % 2 ? `c${n},${n}` : `c${n},x`))
  const { code, errors } = await imported(target, ['name,value', ...rows].join('\n'))
  const listed = upTo(20).map((n) => `Line ${2 * n + 1}: ${INTEGER} "x".`)
  const last = 'Nothing was applied. Faults: 500, of which the first 20 are listed.\n'
  expect([code, errors]).toEqual([1, [...listed, last].join('\n')])
  expect(await countersIn(target)).toEqual([])
})

it('nth import: refuses a directory, a file that is not there, and what is no text or too long, in a sentence', async () => {
  const target = await freshDatabase()
  const directory = await temporaryDirectory()
  const run = async (...args: string[]) => {
    const { code, output, errors } = await runCommand(target, args)
    expect([code, output]).toEqual([1, ''])
    return errors
  }
  const missing = join(directory, 'missing')
  expect(await run('import', missing)).toBe(`There is no file ${missing}.\n`)
  expect(await run('import', directory)).toBe(`${directory} is a directory; give a file.\n`)
  expect(await run('restore', missing)).toBe(`There is no file ${missing}.\n`)
  expect(await run('restore', await fileOf('name,value\na,1\n'))).toContain(
    'Line 1 is not the first line of an export of Nth.',
  )
  // It never ends.
  expect(await run('import', '/dev/zero')).toBe(`${UTF16}\n`)
  const blank = await fileOf('\n'.repeat(1_100_000))
  expect(await run('import', blank)).toBe(
    'Line 1000001: more than 1000000 lines are blank.\nNothing was applied. Faults: 1.\n',
  )
})

it('nth import: keeps the standard input in a private file, which is removed however the process ends', async () => {
  const target = await freshDatabase()
  const directory = join(await temporaryDirectory(), 'spool')
  await mkdir(directory)
  const start = () => startCommand(target, ['import', '-'], { TMPDIR: directory })
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const { child, ended } = start()
    child.stdin?.write('name,value\n')
    const spoolOf = async () => {
      const open = await readdir(`/proc/${child.pid}/fd`)
      const paths = open.map((file) => `/proc/${child.pid}/fd/${file}`)
      const links = await Promise.all(paths.map((path) => readlink(path).catch(() => '')))
      return paths[links.findIndex((link) => link.startsWith(directory) && link.endsWith(' (deleted)'))]
    }
    await expect.poll(spoolOf, { timeout: 60_000 }).toBeDefined()
    expect((await stat((await spoolOf()) ?? '')).mode & 0o777).toBe(0o600)
    child.kill(signal)
    expect((await ended).code).toBe(signal)
    expect(await readdir(directory)).toEqual([])
  }
  const { child, ended } = start()
  child.stdin?.end('name,value\na,1\n')
  expect(await ended).toMatchObject({ code: 0, errors: 'Counters: 1 created.\n' })
  expect(await readdir(directory)).toEqual([])
})
