import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
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

it.each(['--help', '-h'])('says with %s how it is configured, and starts nothing', async (option) => {
  const { code, output, errors } = await run(option)
  expect([code, errors]).toEqual([0, ''])
  expect(output).toMatch(/^Usage: /)
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

it.each([['--port'], ['serve']])('refuses %s with one line', async (argument) => {
  const { code, output, errors } = await run(argument)
  expect([code, output]).toEqual([1, ''])
  expect(errors).toContain(`'${argument}'`)
  expect(errors.trim().split('\n')).toHaveLength(1)
})
