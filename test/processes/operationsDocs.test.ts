// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { clientOf } from '../support/client/client.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { clientArguments, findMysqlClient } from '../support/database/fetchedProgram.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory, temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const mysql = await findMysqlClient()
const read = (path: string) => readFile(join(ROOT, path), 'utf8')
const BUY = `mutation { increment(name: "buyers") { value } nextInSequence(name: "tickets") { value } }`

/** Runs commands as documented, in a directory with the private database. */
async function openShell(environment: Record<string, string> = {}) {
  const directory = await temporaryDirectory()
  await symlink(await dataDirectory(), join(directory, '.nth'))
  const nth = join(directory, 'nth')
  await writeFile(nth, `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/bundle/main.js')} "$@"\n`)
  await chmod(nth, 0o755)
  const env = {
    PATH: `${directory}:${process.env.PATH}`,
    HOME: directory,
    PORT: '0',
    NTH_DATABASE_MEMORY_MB: '64',
    ...environment,
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
      await expect.poll(output).toContain('Nth is running')
      const url = /GraphQL\s+(\S+)\/graphql/.exec(output())?.[1] ?? ''
      return { ...clientOf(url), stop, output }
    },
  }
}

it('operations.md: documents commands that check, back up and restore', async () => {
  const blocks = [...(await read('docs/operations.md')).matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
  // .ci/package runs the two that turn on tracing.
  const [check, , , backup, restore, ...others] = blocks.map(([, block = '']) => block)
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

/** The tables of the first state of the repository, as far as all later ones before 0.2.0 have them. */
const EARLY = [
  'create table namespace (id bigint primary key, name varbinary(764) not null)',
  'create table counter (id bigint primary key, namespace_id bigint not null, name varbinary(764) not null)',
  `create table counter_value (counter_id bigint, period tinyint, starts_at datetime, slot smallint, version int,
     value bigint not null, created_at datetime(3) null, primary key (counter_id, period, starts_at, slot))`,
  'create table sequence (id bigint primary key, namespace_id bigint not null, name varbinary(764) not null)',
  'create table sequence_group (id bigint primary key, sequence_id bigint not null, name varbinary(764) not null)',
  `create table sequence_value (group_id bigint, period_label int unsigned, value bigint null,
     created_at datetime(3) null, primary key (group_id, period_label))`,
  "insert into namespace values (1, 'booksales'), (2, 'boards')",
  "insert into counter values (1, 1, 'Bulldozer'), (2, 1, 'b')",
  `insert into counter_value values (1, 0, '2026-01-01', 0, 1, 40, now()), (1, 0, '2026-01-01', 1, 1, 2, now()),
     (1, 3, '2026-01-01', 0, 1, 7, now()), (2, 0, '2026-01-01', 0, 1, -3, now())`,
  "insert into sequence values (1, 2, 'ticket'), (2, 2, 'slip')",
  "insert into sequence_group values (1, 1, 'MYBOARD'), (2, 2, ''), (3, 2, 'unused')",
  'insert into sequence_value values (1, 2025, 9, now()), (1, 2026, 4, now()), (2, 0, 12, now()), (3, 0, null, now())',
]

it.runIf(mysql)(
  'operations.md: documents how the numbers of a database before 0.2.0 are copied',
  async () => {
    const [early, target] = [await freshDatabase({ migrated: false }), await freshDatabase()]
    await query(early, ...EARLY)
    const blocks = [...(await read('CHANGELOG.md')).matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    const commands = (blocks.at(-1)?.[1] ?? '')
      .replaceAll('mysql --host=127.0.0.1 --user=root', `${mysql} ${clientArguments(early)}`)
      .replaceAll(' old >', ' >')
    expect(commands.match(/nth import/g)).toHaveLength(2)
    const { counters, sequences } = openTestNth(target)
    const format = '{group}-{yyyy}-{value}'
    await sequences.define({ namespace: 'boards', name: 'ticket' }, { restartEvery: 'YEAR', format })
    const shell = await openShell({ DATABASE_URL: urlOf(target) })
    expect((await shell.run(commands)).code).toBe(0)
    const counted = async (name: string) => (await counters.read({ namespace: 'booksales', name })).value
    expect([await counted('Bulldozer'), await counted('b')]).toEqual([42, -3])
    const { output } = await shell.run('nth export --format csv')
    expect(output).toMatch(/^sequenceGroup,boards,ticket,MYBOARD,2026,4\r$/m)
    expect(output).toMatch(/^sequenceGroup,boards,slip,,0,12\r$/m)
    expect(output).not.toContain('unused')
  },
)
