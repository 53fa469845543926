import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { execute } from './processes.ts'

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
