import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import { endProcess } from '../../../src/mysql/dataDirectory.ts'
import {
  commonOptions,
  initialise,
  makeTemporaryFolder,
  serverProgram,
} from '../../../src/mysql/privateServer.ts'
import { fetchServer, type ServerProgram } from '../../../src/mysql/serverProgram.ts'
import type { Target } from '../../../src/mysql/settings.ts'
import { SILENT } from '../../../src/operations/log.ts'
import { onFinished } from '../openOnce.ts'
import { temporaryDirectory } from '../server/nthProcess.ts'
import { query } from './database.ts'

const PROGRAMS = join(import.meta.dirname, '../../../.nth')
const { signal } = new AbortController()

/** A Galera cluster of two nodes. */
export async function startCluster(): Promise<[Target, Target]> {
  const program = await serverProgram({
    root: join(PROGRAMS, 'server'),
    kinds: ['mariadb'],
    path: process.env.PATH ?? '',
    notices: { ...SILENT, info: console.log },
    signal,
  })
  const provider = await findProvider()
  const directory = await temporaryDirectory()
  const ports = await freePorts(4)
  const [firstPort = 0, firstState = 0, secondPort = 0, secondState = 0] = ports
  const address = `gcomm://127.0.0.1:${firstPort},127.0.0.1:${secondPort}`
  const first = {
    program,
    provider,
    directory: join(directory, '1'),
    port: firstPort,
    statePort: firstState,
    address,
  }
  const second = { ...first, directory: join(directory, '2'), port: secondPort, statePort: secondState }
  await initialise(program, first.directory, signal)
  await mkdir(second.directory, { mode: 0o700 })
  await writeFile(join(directory, 'wsrep_sst_copy'), STATE_TRANSFER, { mode: 0o755 })
  return [await startNode(first, '--wsrep-new-cluster'), await startNode(second)]
}

/** How a node that joins gets the files of another: Debian's own ways need more packages. */
const STATE_TRANSFER = `#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 0 ]; do
  case $1 in --role) role=$2 ;; --gtid) gtid=$2 ;; esac
  shift
done
if [ "$role" = donor ]; then
  # MariaDB 11.8 writes a user for other scripts here, and fails if nobody reads it.
  cat >/dev/null
  echo 'flush tables'
  until [ -e "$here/1/tables_flushed" ]; do sleep 0.05; done
  for file in "$here"/1/*; do
    case $file in */galera.cache | */*.dat | */tables_flushed | */*.pid) ;; *) cp -r "$file" "$here/2" ;; esac
  done
  rm "$here/1/tables_flushed"
  echo continue
  echo "$gtid" >"$here/position.new" && mv "$here/position.new" "$here/position"
  echo "done $gtid"
else
  echo 'ready 127.0.0.1:1'
  until [ -s "$here/position" ]; do sleep 0.05; done
  cat "$here/position"
fi
`

const PROVIDER = 'usr/lib/galera/libgalera_smm.so'

/** Debian's library that makes a MariaDB server a node of a cluster, fetched like the server where it isn't installed. */
async function findProvider(): Promise<string> {
  const installed = join('/', PROVIDER)
  if (existsSync(installed)) return installed
  const root = join(PROGRAMS, 'galera')
  if (!existsSync(root)) await fetchServer(root, signal, 'galera-4')
  return join(root, PROVIDER)
}

interface NodeOptions {
  program: ServerProgram
  provider: string
  directory: string
  port: number
  statePort: number
  address: string
}

async function startNode(options: NodeOptions, ...more: string[]): Promise<Target> {
  const { program, provider, directory, port, statePort, address } = options
  const socketPath = `${directory}.sock`
  await makeTemporaryFolder(directory)
  const [command, ...words] = program.command
  const child = spawn(
    command,
    [
      ...words,
      ...commonOptions(program, directory),
      '--skip-networking',
      `--socket=${socketPath}`,
      `--log-error=${directory}.log`,
      '--performance-schema=OFF',
      '--innodb-buffer-pool-size=32M',
      '--innodb-log-file-size=16M',
      '--innodb-flush-log-at-trx-commit=1',
      '--innodb-autoinc-lock-mode=2',
      // As docs/engines.md recommends.
      '--innodb-lock-wait-timeout=2',
      '--binlog-format=ROW',
      '--wsrep-on=ON',
      `--wsrep-provider=${provider}`,
      '--wsrep-cluster-name=test',
      `--wsrep-cluster-address=${address}`,
      '--wsrep-node-address=127.0.0.1',
      '--wsrep-sst-method=copy',
      `--wsrep-provider-options=base_host=127.0.0.1;base_port=${port};gmcast.listen_addr=tcp://127.0.0.1:${port};ist.recv_addr=127.0.0.1:${statePort};gcache.size=16M`,
      ...more,
    ],
    { stdio: 'ignore', env: { ...process.env, PATH: `${dirname(directory)}:${process.env.PATH}` } },
  )
  const exited = once(child, 'exit')
  onFinished(async () => {
    if (child.pid && child.exitCode === null && child.signalCode === null) await endProcess(child.pid, 20_000)
    await exited
  })
  const target = { socketPath, user: 'root', database: 'mysql' }
  const state = async () => {
    if (child.exitCode !== null) throw new Error(await readFile(`${directory}.log`, 'utf8'))
    const [row] = await query(target, "show status like 'wsrep_local_state_comment'")
    return row?.Value
  }
  await expect.poll(() => state().catch(String)).toBe('Synced')
  return target
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => Number(Object(server.address()).port))
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}
