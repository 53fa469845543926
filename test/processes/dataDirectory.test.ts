// @module-tag slow
import { chmod, chown, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { initialise } from '../../src/mysql/privateServer.ts'
import type { ServerProgram } from '../../src/mysql/serverProgram.ts'
import { serverProgramForTests } from '../support/database/privateServer.ts'
import { dataDirectory, spawnNth, startNth, temporaryDirectory } from '../support/server/nthProcess.ts'

async function refusal(directory: string): Promise<string> {
  const nth = spawnNth({ NTH_DATA_DIR: directory })
  expect(await nth.exited).toBe(1)
  expect(nth.output()).not.toMatch(/\n {4}at /)
  return nth.errors()
}

it.each(['/proc/nth/deep/below', '/dev/null/nth'])(
  'NTH_DATA_DIR: ends with a line that says why where no directory can be made: %s',
  async (directory) => {
    expect(await refusal(directory)).toMatch(
      new RegExp(
        `^The data directory ${directory} can't be used: E.*Choose another directory with NTH_DATA_DIR`,
      ),
    )
  },
)

it.each(['770', '707', '1777'])(
  'NTH_DATA_DIR: refuses a directory that others may write to, mode %s',
  async (mode) => {
    const directory = await dataDirectory()
    const before = await readdir(directory)
    await chmod(directory, Number.parseInt(mode, 8))
    expect(await refusal(directory)).toContain(
      `Other users can write to the data directory ${directory}. Remove that permission (chmod go-w ${directory})`,
    )
    // Nothing was left in it.
    expect(await readdir(directory)).toEqual(before)
  },
)

// Only root can give a directory away.
it.skipIf(process.getuid?.() !== 0)(
  'NTH_DATA_DIR: refuses a directory of another user',
  { tags: 'quick' },
  async () => {
    const directory = await dataDirectory()
    const before = await readdir(directory)
    await chown(directory, 65_534, 65_534)
    expect(await refusal(directory)).toContain(
      `The data directory ${directory} belongs to another user (id 65534;`,
    )
    expect(await readdir(directory)).toEqual(before)
  },
)

it('private server: reports why a server could not create a database, with the server’s own message', {
  tags: 'quick',
}, async () => {
  const directory = await temporaryDirectory()
  const found = await serverProgramForTests()
  const program: ServerProgram = {
    ...found,
    // No file may become longer than half a megabyte.
    command: ['/bin/sh', '-c', 'ulimit -f 1000; trap "" XFSZ; exec "$@"', 'sh', ...found.command],
  }
  const failure = initialise(program, join(directory, 'data'), new AbortController().signal)
  const { message } = await failure.then(
    () => new Error('It was made'),
    (error) => error,
  )
  const [first, ...reasons] = message.split('\n')
  expect(first).toMatch(/could not create a new database \(exit 1\):$/)
  expect(reasons.length).toBeGreaterThan(0)
  for (const line of reasons) expect(line).toContain('[ERROR]')
})

const USER = ['setpriv', '--reuid=10001', '--regid=10001', '--clear-groups']
const HIDING = 'mount -t proc -o hidepid=invisible proc /proc && exec "$@"'

// Only root can choose users, and mount. A right that the other one lacks makes the first one invisible to it.
it.skipIf(process.getuid?.() !== 0)(
  'NTH_DATA_DIR: is not taken over by a process from which its own is hidden',
  async () => {
    const directory = await dataDirectory()
    await chown(directory, 10_001, 10_001)
    const environment = { NTH_DATA_DIR: directory }
    const nth = await startNth(environment, [...USER, '--inh-caps=+chown', '--ambient-caps=+chown'])
    const other = spawnNth(environment, ['unshare', '--mount', 'sh', '-c', HIDING, 'sh', ...USER])
    expect(await other.exited).toBe(1)
    expect(other.errors()).toContain('is in use by another Nth')
    expect((await nth.ask('mutation { increment(name: "c") { value } }')).increment.value).toBe(1)
  },
)
