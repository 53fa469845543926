import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onFinished } from '../openOnce.ts'
import { freePort } from './freePort.ts'
import { temporaryDirectory } from './nthProcess.ts'

const ROOT = join(import.meta.dirname, '../../..')

/**
 * Starts nginx with `deploy/nginx.conf` in front of processes at two ports, without TLS. Returns its URL, and the one that
 * stands for plain HTTP.
 */
export async function startNginx(program: string, ports: readonly number[]) {
  const directory = await temporaryDirectory()
  const port = await freePort()
  const plainPort = await freePort()
  const [first, second] = ports
  const text = replaced(await readFile(join(ROOT, 'deploy/nginx.conf'), 'utf8'), [
    [/user www-data;/, process.getuid?.() === 0 ? 'user root;' : ''],
    [/pid \/run\/nginx.pid;/, 'daemon off; pid nginx.pid;'],
    [/worker_processes auto;/, 'worker_processes 2;'],
    [/http \{/, `http { access_log off; ${temporaryPaths(directory)}`],
    [/listen 80;/, `listen 127.0.0.1:${plainPort};`],
    [/listen 443 ssl http2;/, `listen 127.0.0.1:${port};`],
    [/ssl_certificate .*\n.*ssl_certificate_key .*/, ''],
    [/127\.0\.0\.1:4000 /, `127.0.0.1:${first} `],
    [/127\.0\.0\.1:4001 /, `127.0.0.1:${second} `],
  ])
  await writeFile(join(directory, 'nginx.conf'), text)
  const child = spawn(program, ['-p', directory, '-c', 'nginx.conf', '-e', 'error.log'], { stdio: 'ignore' })
  const exited = new Promise<void>((resolve) => {
    child.on('error', () => resolve())
    child.on('close', () => resolve())
  })
  onFinished(async () => {
    child.kill('SIGTERM')
    await exited
  })
  while (!(await isOpen(port))) {
    if (child.exitCode !== null) throw new Error(await readFile(join(directory, 'error.log'), 'utf8'))
    await pause(20)
  }
  return { url: `http://127.0.0.1:${port}`, plainUrl: `http://127.0.0.1:${plainPort}` }
}

/** Directives of nginx, so that it needs no directories but this one. */
export function temporaryPaths(directory: string): string {
  const names = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return names.map((name) => `${name}_temp_path ${join(directory, name)};`).join(' ')
}

function replaced(text: string, replacements: readonly (readonly [RegExp, string])[]): string {
  return replacements.reduce((before, [pattern, replacement]) => {
    if (!pattern.test(before)) throw new Error(`deploy/nginx.conf has no ${pattern}`)
    return before.replace(pattern, replacement)
  }, text)
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
