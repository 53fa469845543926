import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { startService } from './support/service.ts'

const README = join(import.meta.dirname, '../README.md')

it('shows what its commands print, also when they are run once more', async () => {
  const { url } = await startService()
  const text = await readFile(README, 'utf8')
  const examples = [...text.matchAll(/```sh\n(curl [^`]+)```\n\n```json\n([^`]+)```/g)]
  expect(examples).toHaveLength(11)
  for (const [, command = '', answer] of [...examples, ...examples]) {
    const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('http://127.0.0.1:4000', url)])
    expect(stdout).toBe(answer)
  }
})

it('lists every variable that the configuration reads', async () => {
  const source = await readFile(join(import.meta.dirname, '../src/process/config.ts'), 'utf8')
  const variables = [...source.matchAll(/^ {2}([A-Z_]+): /gm)].map(([, name]) => name)
  expect(variables.length).toBeGreaterThan(3)
  const text = await readFile(README, 'utf8')
  const listed = [...text.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name)
  expect(listed.toSorted()).toEqual(variables.toSorted())
})

it('holds a page of at most 20 lines', async () => {
  const page = /```html\n([^`]*(?:`[^`]+`[^`]*)*?)```/.exec(await readFile(README, 'utf8'))?.[1] ?? ''
  const lines = page.trim().split('\n').length
  expect(lines).toBeGreaterThan(5)
  expect(lines).toBeLessThanOrEqual(20)
})
