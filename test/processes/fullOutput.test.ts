// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { clientOf, upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { freePort } from '../support/server/freePort.ts'
import { openTestNth } from '../support/server/nth.ts'

const ROOT = join(import.meta.dirname, '../..')
type Output = 'pipe' | 'full'

/** Starts the built command; `full`: a disk without room. */
async function start(args: string[], [stdout, stderr]: [Output, Output], environment: object = {}) {
  const full = openSync('/dev/full', 'w')
  const outputOf = (output: Output) => (output === 'full' ? full : output)
  const child = spawn(process.execPath, ['dist/bundle/main.js', ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, DATABASE_URL: urlOf(await freshDatabase()), ...environment },
    stdio: ['ignore', outputOf(stdout), outputOf(stderr)],
  })
  closeSync(full)
  const closed = once(child, 'close')
  let errors = ''
  child.stderr?.on('data', (chunk) => {
    errors += chunk
  })
  return { child, closed, errors: () => errors }
}

it.each<[string, [Output, Output], string]>([
  ['the log', ['pipe', 'full'], '1'],
  ['the log of workers', ['pipe', 'full'], '2'],
  ['what it prints', ['full', 'pipe'], '1'],
])('full output: serves on when %s can not be written', async (_, outputs, workers) => {
  const port = await freePort()
  const { child, closed } = await start(['start'], outputs, { PORT: String(port), WORKERS: workers })
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await closed
  })
  const { url, post, ask } = clientOf(`http://127.0.0.1:${port}`)
  const isReady = () => fetch(`${url}/ready`).then(({ status }) => status, String)
  await expect.poll(isReady).toBe(200)
  for (let n = 1; n <= 30; n++) {
    const { body } = await post('{"query":"{x}"}', { connection: 'close' })
    expect(body.errors?.[0]?.extensions.code).toBe('GRAPHQL_VALIDATION_FAILED')
    expect(await ask('mutation { increment(name: "a") { value } }')).toEqual({ increment: { value: n } })
  }
  child.kill('SIGTERM')
  expect(await closed).toEqual([0, null])
})

it.each([[['--help']], [['check']], [['keys', 'create', '--label', 'x', '--allow', 'READ']], [['export']]])(
  'full output: says in one line that the output of %j could not be written',
  async (args) => {
    const { closed, errors } = await start(args, ['full', 'pipe'])
    expect(await closed).toEqual([1, null])
    expect(errors()).toMatch(
      /^(The output could not be written: )?ENOSPC: no space left on device, write\.?$/m,
    )
    expect(errors()).not.toContain('    at ')
  },
)

it('nth restore --advance: moves all numbers on although nobody reads what it prints', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  for (const n of upTo(40)) {
    const key = { namespace: 'n', name: `c${n}` }
    // Of these it prints that they have a minimum.
    if (n % 2 === 0) await counters.define(key, { minValue: 0 })
    await counters.incrementBy(key, 1)
  }
  const { child, closed, errors } = await start(['restore', '--advance', '10'], ['pipe', 'pipe'], {
    DATABASE_URL: urlOf(target),
  })
  child.stdout?.destroy()
  expect(await closed).toEqual([0, null])
  expect(JSON.parse(errors())).toMatchObject({ audit: { field: 'nth restore --advance', count: 20 } })
  const values = await Promise.all(
    upTo(40).map(async (n) => (await counters.read({ namespace: 'n', name: `c${n}` })).value),
  )
  expect(values.filter((value) => value === 11)).toHaveLength(20)
  expect(values.filter((value) => value === 1)).toHaveLength(20)
})
