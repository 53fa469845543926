import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/process/config.ts'

const ROOT = join(import.meta.dirname, '../..')

interface Ended {
  code: number
  output: string
  errors: string
}

function run(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['dist/main.js', ...args], { cwd: ROOT }, (error, output, errors) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, output, errors })
    })
  })
}

it.each([[], ['--help'], ['-h']])('lists its commands: nth %s', async (...option) => {
  const { code, output, errors } = await run(...option)
  expect([code, errors]).toEqual([0, ''])
  expect(output).toMatch(/^Usage: nth /)
  const files = await readdir(join(ROOT, 'src/commands'))
  const names = [...output.matchAll(/^ {2}(\w+) {2,}\w/gm)].map(([, name]) => name)
  expect(names.length).toBeGreaterThan(1)
  for (const name of names) {
    expect(files).toContain(`${name}.ts`)
    expect((await run(name ?? '', '--help')).output).toMatch(new RegExp(`^Usage: nth ${name} `))
  }
})

it.each(['--help', '-h'])('says with start %s how it is configured, and starts nothing', async (option) => {
  const { code, output, errors } = await run('start', option)
  expect([code, errors]).toEqual([0, ''])
  const source = await readFile(join(ROOT, 'src/process/config.ts'), 'utf8')
  const settings = [...source.matchAll(/^ {2}([A-Z_]+): /gm)].map(([, name]) => name)
  expect(settings.length).toBeGreaterThan(8)
  for (const name of settings) expect(output).toContain(`  ${name} `)
  expect(output).toContain(`(${readConfig({}).writeTimeoutMs})`)
})

it.each(['--version', '-v'])('says its version with %s', async (option) => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  expect(await run(option)).toEqual({ code: 0, output: `${version}\n`, errors: '' })
})

it.each([['serve'], ['constructor'], ['--port'], ['start', '--port'], ['start', 'now'], ['keys', '--port']])(
  'refuses %s %s with one line',
  async (...args) => {
    const { code, output, errors } = await run(...args)
    expect([code, output]).toEqual([1, ''])
    expect(errors).toContain(args.at(-1))
    expect(errors.trim().split('\n')).toHaveLength(1)
  },
)
