import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fetchServer } from '../../../src/mysql/serverProgram.ts'
import type { Target } from '../../../src/mysql/settings.ts'

/** A program: the installed one, or that of a Debian package, fetched like the database server. Undefined: there is none. */
export async function findProgram(packageName: string, ...paths: string[]): Promise<string | undefined> {
  const root = join(import.meta.dirname, '../../../.nth', packageName)
  const candidates = [...paths, ...paths.map((path) => join(root, path))]
  const installed = candidates.find((path) => existsSync(path))
  if (installed) return installed
  try {
    await fetchServer(root, new AbortController().signal, packageName)
  } catch (error) {
    if (process.env.CI) throw error
    console.log(`Tests with ${packageName} are skipped: ${(error as Error).message}`)
  }
  return candidates.find((path) => existsSync(path))
}

export const findNginx = () => findProgram('nginx', '/usr/sbin/nginx')

/** The command-line client of MySQL or MariaDB. */
export const findMysqlClient = () => findProgram('mariadb-client-core', '/usr/bin/mysql', '/usr/bin/mariadb')

/** How that client reaches a server and its database, for a shell. */
export function clientArguments({ host, port, user, password, socketPath, database }: Target): string {
  const way = socketPath ? [`--socket=${socketPath}`] : [`--host=${host}`, `--port=${port}`, '--protocol=tcp']
  const options = [
    `--user=${user}`,
    ...(password ? [`--password=${password}`] : []),
    ...way,
    `--database=${database}`,
  ]
  return options.map((option) => `'${option}'`).join(' ')
}
