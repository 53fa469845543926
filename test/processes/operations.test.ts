import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { clientOf } from '../support/client.ts'
import { dataDirectory, temporaryDirectory } from '../support/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFile(join(ROOT, path), 'utf8')
const BUY = `mutation { increment(name: "buyers") { value } nextInSequence(name: "tickets") { value } }`

/** Runs commands as documented, in a directory with the private database. */
async function openShell() {
  const directory = await temporaryDirectory()
  await symlink(await dataDirectory(), join(directory, '.nth'))
  const nth = join(directory, 'nth')
  await writeFile(nth, `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/main.js')} "$@"\n`)
  await chmod(nth, 0o755)
  const env = {
    PATH: `${directory}:${process.env.PATH}`,
    HOME: directory,
    PORT: '0',
    NTH_DATABASE_MEMORY_MB: '64',
  }

  function start(commands: string) {
    const child = spawn('sh', ['-ec', commands], { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = once(child, 'close')
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
      })
    return { child, closed, output: () => output }
  }

  return {
    async run(commands: string): Promise<{ code: number; output: string }> {
      const { closed, output } = start(commands)
      const [code] = await closed
      return { code, output: output() }
    },

    /** Starts commands of which the last one starts Nth. */
    async serve(commands: string) {
      const { child, closed, output } = start(commands.replace(/nth start\n$/, 'exec nth start\n'))
      const stop = async () => {
        child.kill('SIGTERM')
        await closed
      }
      onTestFinished(stop)
      await expect.poll(output, { timeout: 30_000 }).toContain('Nth is running')
      const url = /GraphQL\s+(\S+)\/graphql/.exec(output())?.[1] ?? ''
      return { ...clientOf(url), stop, output }
    },
  }
}

it('documents commands that check, back up and restore', async () => {
  const blocks = [...(await read('docs/operations.md')).matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
  const [check, backup, restore, ...others] = blocks.map(([, block = '']) => block)
  expect(others).toEqual([])
  const shell = await openShell()
  const before = await shell.serve('nth start\n')
  for (let n = 1; n <= 3; n++) await before.ask(BUY)
  const checked = await shell.run(check ?? '')
  expect([checked.code, checked.output]).toEqual([0, expect.stringContaining('migrations')])
  const backedUp = await shell.run(backup ?? '')
  expect(backedUp).toEqual({
    code: 0,
    output: expect.stringMatching(/^Backed up as of .* into backups\/monday\.\n$/),
  })
  for (let n = 1; n <= 3; n++) await before.ask(BUY)
  await before.stop()

  const after = await shell.serve(restore ?? '')
  expect(after.output()).toMatch(/^Restored as of 20/m)
  expect(after.output()).toContain('Moved on by 10000: 1 counters, 1 sequence groups.\n')
  expect(await after.ask(BUY)).toEqual({ increment: { value: 10_004 }, nextInSequence: { value: 10_004 } })
})

it('documents every alert', async () => {
  const { groups } = parse(await read('deploy/alerts.yaml'))
  const alerts = groups.flatMap(({ rules }: { rules: { alert: string }[] }) =>
    rules.map(({ alert }) => alert),
  )
  const listed = [...(await read('docs/operations.md')).matchAll(/^\| `(Nth\w+)` \|/gm)].map(
    ([, name]) => name,
  )
  expect(listed.toSorted()).toEqual(alerts.toSorted())
})
