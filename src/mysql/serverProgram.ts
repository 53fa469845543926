import { existsSync } from 'node:fs'
import { access, constants, mkdir, readdir, realpath, rename, rm } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { execute } from './dataDirectory.ts'

export type ServerKind = 'mariadb' | 'mysql'

/** A database server's program, and what it needs to run from its location. */
export interface ServerProgram {
  kind: ServerKind
  path: string
  /** The command that runs it; options follow. */
  command: [string, ...string[]]
  options: string[]
  /** SQL files that create MariaDB's system tables, in order; empty if none were found. MySQL needs none. */
  systemTables: string[]
}

/** Folders in which packages install servers, searched after PATH: a user's PATH often lacks the first. */
const FOLDERS = [
  '/usr/sbin',
  '/usr/local/sbin',
  '/usr/libexec',
  '/usr/local/mysql/bin',
  '/opt/homebrew/opt/mariadb/bin',
  '/opt/homebrew/opt/mysql/bin',
  '/usr/local/opt/mariadb/bin',
]

/** Finds an installed server of one of these kinds; `path` is a list of folders as in PATH. */
export async function findServer(path: string, kinds: ServerKind[]): Promise<ServerProgram | undefined> {
  for (const folder of [...path.split(delimiter), ...FOLDERS]) {
    for (const name of ['mariadbd', 'mysqld']) {
      const program = await describe(join(folder, name), [])
      if (program && kinds.includes(program.kind)) return program
    }
  }
  return undefined
}

/** Finds the server that was unpacked from Debian's packages under `root`. */
export async function findUnpackedServer(root: string): Promise<ServerProgram | undefined> {
  const program = await describe(join(root, 'usr/sbin/mariadbd'), ['/usr/bin/env', libraryPath(root)])
  const [firstTables] = program?.systemTables ?? []
  if (!program || firstTables === undefined) return undefined
  const share = dirname(firstTables)
  return {
    ...program,
    options: [
      `--basedir=${join(root, 'usr')}`,
      `--lc-messages-dir=${share}`,
      `--character-sets-dir=${join(share, 'charsets')}`,
      `--plugin-dir=${join(root, 'usr/lib/mysql/plugin')}`,
    ],
  }
}

async function describe(path: string, launcher: string[]): Promise<ServerProgram | undefined> {
  const [first = path, ...others] = [...launcher, path]
  try {
    await access(path, constants.X_OK)
    const { stdout } = await execute(first, [...others, '--no-defaults', '--version'])
    return {
      kind: stdout.includes('MariaDB') ? 'mariadb' : 'mysql',
      path,
      command: [first, ...others],
      options: [],
      systemTables: findSystemTables(dirname(dirname(await realpath(path)))),
    }
  } catch {
    // Missing, or not a server that runs here.
    return undefined
  }
}

/** Debian 12 has them as `share/mysql/mysql_*.sql`, Debian 13 as `share/mariadb/mariadb_*.sql`; others mix the two. */
function findSystemTables(prefix: string): string[] {
  for (const folder of ['share/mariadb', 'share/mysql', 'share']) {
    for (const name of ['mariadb', 'mysql']) {
      const files = ['system_tables', 'system_tables_data'].map((part) =>
        join(prefix, folder, `${name}_${part}.sql`),
      )
      if (files.every((file) => existsSync(file))) return files
    }
  }
  return []
}

/** The environment variable that makes programs search for libraries under `root` first. */
function libraryPath(root: string): string {
  const triplets: Partial<Record<string, string>> = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }
  const triplet = triplets[process.arch] ?? ''
  const folders = [join(root, 'usr/lib', triplet), join(root, 'lib', triplet)]
  return `LD_LIBRARY_PATH=${folders.join(delimiter)}`
}

const APT = '/usr/bin/apt-get'

/** Alternatives to a server that was not found or could not be downloaded, as the end of a message. */
export const OTHER_WAYS = `Alternatives:
  - install a server: sudo apt-get install mariadb-server-core (or brew install mariadb), then start again;
  - run one in a container: docker run --rm -d -p 127.0.0.1:3306:3306 -e MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1 -e MARIADB_DATABASE=nth mariadb:11, and set DATABASE_URL=mysql://root@127.0.0.1:3306/nth;
  - use an existing server: set DATABASE_URL=mysql://user:password@host:3306/nth.`

/**
 * Downloads the distribution's own signed MariaDB server, or another package, with the libraries that this machine
 * lacks, and unpacks it under `root`. Works as any user: apt uses its own folders here, and nothing is installed.
 *
 * @throws {Error} stating why it failed, and the alternatives
 */
export async function fetchServer(root: string, signal: AbortSignal, name = 'mariadb-server-core') {
  if (!existsSync(APT)) {
    throw new Error(
      `No MariaDB or MySQL server was found on this machine, and there is no apt to download one. ${OTHER_WAYS}`,
    )
  }
  const work = `${root}.partial`
  await rm(work, { recursive: true, force: true })
  const archives = join(work, 'archives')
  for (const folder of ['lists', 'archives']) await mkdir(join(work, folder, 'partial'), { recursive: true })
  const options = [
    ['Dir::State::lists', join(work, 'lists')],
    ['Dir::Cache', work],
    ['Dir::Cache::archives', archives],
    ['Debug::NoLocking', '1'],
    ['APT::Sandbox::User', 'root'],
    ['Acquire::Retries', '3'],
  ].flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const apt = (...args: string[]) => execute(APT, [...options, '--quiet', ...args], { signal })
  try {
    await apt('--error-on=any', 'update')
    await apt('--yes', '--no-install-recommends', '--download-only', '--reinstall', 'install', name)
    const packages = (await readdir(archives)).filter((name) => name.endsWith('.deb'))
    for (const file of packages) {
      await execute('dpkg-deb', ['-x', join(archives, file), join(work, 'root')], { signal })
    }
    await rename(join(work, 'root'), root)
  } catch (error) {
    if (signal.aborted) throw error
    // An error of apt is a line that begins with `E:`.
    const { stderr, message } = error as { stderr?: string; message: string }
    const reason = stderr?.split('\n').find((line) => line.startsWith('E:')) ?? message
    throw new Error(`apt could not download ${name}: ${reason} ${OTHER_WAYS}`, { cause: error })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
