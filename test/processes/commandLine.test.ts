import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfig, VARIABLES } from '../../src/config.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { runNth } from '../support/server/transfer.ts'

const ROOT = join(import.meta.dirname, '../..')

const run = (...args: string[]) => runNth(args)

it('nth --help: lists the commands, each of which has --help', { tags: 'slow' }, async () => {
  const { output } = await run('--help')
  expect(output).toMatch(/^Usage: nth /)
  for (const args of [[], ['-h']])
    expect(await run(...args)).toEqual({ code: 0, output, errors: '', audit: [] })
  const files = await readdir(join(ROOT, 'src/commands'))
  const names = [...output.matchAll(/^ {2}(\w+) {2,}\w/gm)].map(([, name = '']) => name)
  expect(names.length).toBeGreaterThan(1)
  for (const name of names) {
    expect(files).toContain(`${name}.ts`)
    expect((await run(name, '--help')).output).toMatch(new RegExp(`^Usage: nth ${name} `))
  }
  for (const name of ['keys', 'documents'])
    expect((await run(name)).output).toMatch(new RegExp(`^Usage: nth ${name} `))
})

it('nth start --help: says how it is configured, and starts nothing', async () => {
  const { code, output, errors } = await run('start', '--help')
  expect([code, errors]).toEqual([0, ''])
  const listed = [...output.matchAll(/^ {2}([A-Z_]+) {2}/gm)].map(([, name]) => name)
  expect(listed.toSorted()).toEqual([...VARIABLES.values()].toSorted())
  expect(output).toContain(`(${readConfig({}).writeTimeoutMs})`)
})

it.each(['--version', '-v'])('nth %s: prints its release, and the commit of a clone', async (option) => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const { output } = await run(option)
  expect(output).toMatch(new RegExp(`^${version}(\\+[0-9a-f]{7,}(-dirty)?)?\n$`))
})

it.each([['serve'], ['constructor'], ['--port'], ['keys', '--port']])(
  'nth: refuses %s %s with one line',
  async (...args) => {
    const { code, output, errors } = await run(...args)
    expect([code, output]).toEqual([1, ''])
    expect(errors).toContain(args.at(-1))
    expect(errors.trim().split('\n')).toHaveLength(1)
  },
)

it.each([
  ['check'],
  ['keys', 'list'],
  ['export'],
  ['import', 'x.jsonl'],
  ['backup', 'DIRECTORY'],
  ['restore', '--advance', '5'],
])('nth %s: refuses a misspelt variable', async (...args) => {
  const words = await Promise.all(args.map((word) => (word === 'DIRECTORY' ? temporaryDirectory() : word)))
  const { code, errors } = await runNth(words, {
    NTH_ADMINKEY: 'x'.repeat(32),
    DATABASE_URL: 'mysql://root@127.0.0.1:1/nth',
  })
  expect([code, errors]).toEqual([
    1,
    'NTH_ADMINKEY is not a variable of Nth. Did you mean NTH_ADMIN_KEY? nth start --help lists all variables.\n',
  ])
})
