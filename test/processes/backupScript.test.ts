// @module-tag slow
import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { OWN_MOUNTS } from '../support/ownMounts.ts'
import { openTestNth } from '../support/server/nth.ts'
import { commandEnvironment } from '../support/server/transfer.ts'

const SCRIPT = join(import.meta.dirname, '../../deploy/backup.sh')
const FILE = 'nth.jsonl'
const WHOLE = '{"type":"header","version":1}\n{"type":"end","lines":1}\n'
const NEW = expect.stringMatching(/^20\d\d-\d\d-\d\dT\d\d\.\d\d\.\d\dZ$/)
const HOUR_S = 3600

/** Where the script keeps three backups of a database. */
async function openBackups(target: Target) {
  const environment = await commandEnvironment(urlOf(target))
  const directory = join(String(environment.HOME), 'backups')
  await mkdir(directory)

  /** Starts it as the leader of a process group. */
  function start(more: NodeJS.ProcessEnv = {}) {
    const env = { ...environment, ...more }
    const child = spawn('/bin/sh', [SCRIPT, directory, '3'], {
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const killAll = () => void process.kill(-Number(child.pid), 'SIGKILL')
    const ended = Promise.all([
      new Promise((resolve) => child.on('close', (code, signal) => resolve(code ?? signal))),
      text(child.stdout),
      text(child.stderr),
    ]).then(([code]) => code)
    return { child, killAll, ended }
  }

  return {
    directory,
    environment,
    start,
    run: (more?: NodeJS.ProcessEnv) => start(more).ended,
    list: async () => (await readdir(directory)).toSorted(),

    /** A backup of another time, as its script left it. */
    async add(name: string, files: Record<string, string>, ageS = 2 * HOUR_S): Promise<void> {
      const path = join(directory, name)
      await mkdir(path)
      for (const [file, content] of Object.entries(files)) await writeFile(join(path, file), content)
      for (const each of [...Object.keys(files).map((file) => join(path, file)), path]) await age(each, ageS)
    },
  }
}

async function age(path: string, ageS: number): Promise<void> {
  const at = Date.now() / 1000 - ageS
  await utimes(path, at, at)
}

it('deploy/backup.sh: keeps the newest whole backups, and deletes none of them for broken ones, or if it fails', async () => {
  const target = await freshDatabase()
  const backups = await openBackups(target)
  const old = ['2026-01-01T02.17.00Z', '2026-01-02T02.17.00Z', '2026-01-03T02.17.00Z']
  const damaged = '2026-01-06T02.17.00Z'
  for (const name of [...old, 'other']) await backups.add(name, { [FILE]: WHOLE })
  // What was left by scripts that were killed, and a file that was damaged since: somebody may still want that.
  await backups.add('2026-01-04T02.17.00Z', {})
  await backups.add('2026-01-05T02.17.00Z', { [`${FILE}.7.tmp`]: WHOLE })
  await backups.add(damaged, { [FILE]: WHOLE.slice(0, -3) })
  for (const _ of upTo(4)) {
    expect(await backups.run({ DATABASE_URL: urlOf({ ...target, user: 'nobody' }) })).toBe(1)
    expect(await backups.list()).toEqual([...old, damaged, 'other'])
  }
  expect(await backups.run()).toBe(0)
  expect(await backups.list()).toEqual([...old.slice(1), damaged, NEW, 'other'])
  const [, , , added] = await backups.list()
  expect(await readFile(join(backups.directory, added ?? '', FILE), 'utf8')).toMatch(
    /\n\{"type":"end",.*\}\n$/,
  )
})

/** A run that has begun to write its file, and waits for the database for ever. */
async function startUnfinished() {
  const database = await freshDatabase()
  const isHeld = (statement: string) => /from trusted_document/.test(statement)
  const target = await startProxy(database, (statement) =>
    isHeld(statement) ? new Promise(() => undefined) : 'passes',
  )
  const backups = await openBackups(target)
  await backups.add('2026-01-01T02.17.00Z', { [FILE]: WHOLE })
  const script = backups.start()
  onTestFinished(() => {
    // It has ended, unless the test has failed.
    try {
      script.killAll()
    } catch {}
  })
  const filesOf = async () => readdir(join(backups.directory, (await backups.list())[1] ?? ''))
  await expect.poll(() => filesOf().catch(() => [])).toEqual([expect.stringMatching(/\.tmp$/)])
  return { ...backups, ...script, urlOfDatabase: urlOf(database) }
}

it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'deploy/backup.sh: removes its partial backup on %s',
  async (signal) => {
    const { child, ended, list, killAll } = await startUnfinished()
    child.kill(signal)
    expect(await ended).toBe(1)
    expect(await list()).toEqual(['2026-01-01T02.17.00Z'])
    // It has ended its command, too.
    expect(killAll).toThrow('ESRCH')
  },
)

it('deploy/backup.sh: does not count the partial backup of a script that was killed, and deletes it after an hour', async () => {
  const { directory, ended, killAll, list, run, urlOfDatabase } = await startUnfinished()
  killAll()
  expect(await ended).toBe('SIGKILL')
  const [first, partial = ''] = await list()
  const env = { DATABASE_URL: urlOfDatabase }
  for (const _ of upTo(2)) expect(await run(env)).toBe(0)
  // Another script may still be writing it. Two are whole.
  expect(await list()).toEqual([first, partial, NEW, NEW])
  for (const file of [...(await readdir(join(directory, partial))), '.'])
    await age(join(directory, partial, file), 1.1 * HOUR_S)
  expect(await run(env)).toBe(0)
  const names = await list()
  expect(names).toEqual([NEW, NEW, NEW])
  expect(names).not.toContain(partial)
})

it.runIf(OWN_MOUNTS)(
  'deploy/backup.sh: deletes no whole backup on a full disk, and leaves no partial one',
  async () => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    await Promise.all(
      upTo(500).map((index) => counters.incrementBy({ namespace: 'n', name: `c${index}` }, 1)),
    )
    const { directory, environment } = await openBackups(target)
    const old = '2026-01-01T02.17.00Z'
    const commands = `
    mount -t tmpfs -o size=16k none ${directory}
    mkdir ${directory}/${old}
    printf '${WHOLE.replaceAll('\n', '\\n')}' > ${directory}/${old}/${FILE}
    for time in 1 2 3 4; do
      if sh ${SCRIPT} ${directory} 1; then exit 9; fi
      ls ${directory}
    done`
    const [program = '', ...args] = OWN_MOUNTS ?? []
    const child = spawn(program, [...args, 'sh', '-ec', commands], { env: environment })
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
    expect(output).toBe(`${old}\n`.repeat(4))
    expect(errors.match(/ENOSPC/g)?.length).toBe(4)
  },
)
