import { execFile } from 'node:child_process'
import { access, constants, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { type Child, startChild } from './children.ts'

export interface RedisServer {
  port: number
  version: string
  child: Child
}

export interface RedisOptions {
  /** A directory for its data. */
  directory: string
  say: (message: string) => void
  signal: AbortSignal
}

const run = promisify(execFile)

/**
 * Starts a Redis that writes every change to its disk before it answers. Where there is none it is installed
 * from Debian's packages, if this user may do so; undefined: it can't be had, as it has said.
 */
export async function startRedis({ directory, say, signal }: RedisOptions): Promise<RedisServer | undefined> {
  const program = (await findRedis()) ?? (await installRedis(say, signal))
  if (!program) return undefined
  const port = await freePort()
  const child = startChild(program, [
    ...['--bind', '127.0.0.1', '--port', String(port), '--dir', directory],
    ...['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''],
  ])
  try {
    await child.printed(/Ready to accept connections/)
  } catch (error) {
    await child.end()
    throw error
  }
  const { stdout } = await run(program, ['--version'])
  return { port, child, version: / v=(\S+)/.exec(stdout)?.[1] ?? '' }
}

async function findRedis(): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin']
  for (const folder of folders) {
    const path = join(folder, 'redis-server')
    if (
      await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return path
  }
  return undefined
}

const APT = '/usr/bin/apt-get'

async function installRedis(say: RedisOptions['say'], signal: AbortSignal): Promise<string | undefined> {
  const isRoot = process.getuid?.() === 0
  const hasApt = await access(APT).then(
    () => true,
    () => false,
  )
  if (!isRoot || !hasApt) {
    say(
      'mercurius + Redis is left out: there is no redis-server here. To have it: apt-get install redis-server',
    )
    return undefined
  }
  say("Installing Debian's redis-server.")
  const options = { signal, env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  try {
    await run(APT, ['update', '-qq'], options)
    await withoutServices(() =>
      run(APT, ['install', '-qq', '-y', '--no-install-recommends', 'redis-server'], options),
    )
    // Nor is it to start with the machine.
    await run('/usr/sbin/update-rc.d', ['redis-server', 'disable'], options)
  } catch (error) {
    if (signal.aborted) throw error
    say(`mercurius + Redis is left out: redis-server could not be installed. ${(error as Error).message}`)
    return undefined
  }
  return findRedis()
}

const POLICY = '/usr/sbin/policy-rc.d'
/** Exit code 101 forbids what a package asks: to start its service. */
const FORBID = '#!/bin/sh\nexit 101\n'

/** Installs with Debian's own means to keep packages from starting services; containers often have it already. */
async function withoutServices(install: () => Promise<unknown>): Promise<void> {
  const isThere = await access(POLICY).then(
    () => true,
    () => false,
  )
  if (!isThere) await writeFile(POLICY, FORBID, { mode: 0o755 })
  try {
    await install()
  } finally {
    if (!isThere) await rm(POLICY)
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // It listens at a port, not at the path of a socket.
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
