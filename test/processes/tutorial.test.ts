// @module-tag slow
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import { findChromium } from '../support/browser/chromium.mjs'
import { query } from '../support/database/database.ts'
import {
  clientArguments,
  findMysqlClient,
  findNginx,
  findProgram,
} from '../support/database/fetchedProgram.ts'
import { privateServerWith } from '../support/database/privateServer.ts'
import { freePort } from '../support/server/freePort.ts'
import { dataDirectory, temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const nginx = await findNginx()
const mysql = await findMysqlClient()
const python = await findProgram('python3', '/usr/bin/python3')
const chromiumPath = findChromium()

/** What a reader does: runs a block, saves it, opens the page at an address, or stops the server. */
interface Step {
  kind: string
  text: string
  /** What the tutorial shows afterwards. Each … is some text. */
  shown?: string
}

function stepsOf(tutorial: string): Step[] {
  const steps: Step[] = []
  const shape = /^```(\w+)\n([\s\S]*?)^```$|<(https?:[^>\s]+order=\d+)>|Stop Nth with Ctrl-C/gm
  for (const [stop, language, text = '', address] of tutorial.matchAll(shape)) {
    if (address) steps.push({ kind: 'address', text: address })
    else if (!language) steps.push({ kind: 'stop', text: stop })
    else if (language === 'text') Object.assign(steps.at(-1) ?? {}, { shown: text })
    else steps.push({ kind: language, text })
  }
  return steps
}

/** Whether a text is what the tutorial shows. */
function expectShown(text: string, shown = ''): void {
  const parts = shown.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  expect(text.trimEnd()).toMatch(new RegExp(`^${parts.join('[\\s\\S]+')}$`.replace('\n$', '$')))
}

/** A host on which a clone was made and `npm ci` has run, with MariaDB, and with nginx that serves shop.example. */
async function prepareHost() {
  const directory = await temporaryDirectory()
  const [nthPort = 0, sitePort, databasePort, tlsPort, ...others] = await Promise.all(
    Array.from({ length: 6 }, freePort),
  )
  const here = (text: string) =>
    Object.entries({
      '127.0.0.1:4000': `127.0.0.1:${nthPort}`,
      '127.0.0.1:4001': `127.0.0.1:${others[0]}`,
      '127.0.0.1:3306': `127.0.0.1:${databasePort}`,
      '127.0.0.1:8080': `127.0.0.1:${sitePort}`,
      'http.server 8080': `http.server ${sitePort}`,
      'listen 80;': `listen 127.0.0.1:${others[1]};`,
      'listen 443 ': `listen 127.0.0.1:${tlsPort} `,
      '/etc/': `${directory}/etc/`,
    }).reduce((before, [from, to]) => before.replaceAll(from, to), text)
  const save = async (path: string, text: string, mode = 0o644) =>
    writeFile(join(directory, path), here(text), { mode })

  for (const path of ['programs', 'site', 'deploy', 'etc/nginx/conf.d'])
    await mkdir(join(directory, path), { recursive: true })
  for (const path of ['bin', 'dist', 'node_modules', 'package.json', 'schema', 'src', 'docs'])
    await symlink(join(ROOT, path), join(directory, path))
  await symlink(await dataDirectory(), join(directory, '.nth'))
  await save('deploy/nginx.conf', await readFile(join(ROOT, 'deploy/nginx.conf'), 'utf8'))
  const database = await privateServerWith(await temporaryDirectory(), [
    '--skip-networking=OFF',
    '--bind-address=127.0.0.1',
    `--port=${databasePort}`,
  ])
  // A private one has this database from the beginning.
  await query(database, 'drop database nth')
  const program = (name: string, command: string) =>
    save(`programs/${name}`, `#!/bin/sh\nexec ${command}\n`, 0o755)
  await program('sudo', '"$@"')
  await program('mariadb', `${mysql} ${clientArguments({ ...database, database: 'mysql' })} "$@"`)
  await program('python3', `${python} "$@"`)
  await program('nginx', `${nginx} -p ${directory} -c nginx.conf -e error.log "$@"`)
  // That the site is there already needs no test.
  await program('systemctl', 'nginx')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${name};`,
  )
  await save(
    'nginx.conf',
    `${process.getuid?.() === 0 ? 'user root;' : ''} pid nginx.pid; events {}
     http {
       access_log off; ${temporary.join(' ')} include /etc/nginx/conf.d/*.conf;
       server {
         listen 443 ssl http2; server_name shop.example; root site;
         ssl_certificate /etc/ssl/nth.example/fullchain.pem; ssl_certificate_key /etc/ssl/nth.example/privkey.pem;
       }
     }`,
  )
  onTestFinished(async () => {
    const pid = await readFile(join(directory, 'nginx.pid'), 'utf8').catch(() => undefined)
    if (pid) process.kill(Number(pid), 'SIGTERM')
  })
  const environment = {
    ...{ PATH: `${directory}/programs:${process.env.PATH}`, HOME: directory, PORT: String(nthPort) },
    // It is built, and other tests use what was built.
    ...{
      npm_config_ignore_scripts: 'true',
      npm_config_update_notifier: 'false',
      NTH_DATABASE_MEMORY_MB: '128',
    },
  }
  const launch = { args: [`--host-resolver-rules=MAP *.example:443 127.0.0.1:${tlsPort}`, '--no-sandbox'] }
  return { directory, here, save, environment, launch }
}

type Host = Awaited<ReturnType<typeof prepareHost>>

/** A terminal of its own, in which a server runs until Ctrl-C. */
async function startServer(
  { directory, environment }: Host,
  command: string,
  url: string,
): Promise<() => Promise<unknown>> {
  const child = spawn('sh', ['-ec', command], {
    cwd: directory,
    env: environment,
    detached: true,
    stdio: 'pipe',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode) return
    const closed = once(child, 'close')
    // As from a terminal: all of its processes get it.
    process.kill(-Number(child.pid), 'SIGINT')
    await closed
  }
  onTestFinished(stop)
  const isServing = () =>
    fetch(url).then(
      () => true,
      () => child.exitCode !== null,
    )
  await expect.poll(isServing, { timeout: 60_000 }).toBe(true)
  expect([child.exitCode, output]).toEqual([null, output])
  return stop
}

/** A terminal that keeps its variables. Returns a function that runs a command, and returns what it printed. */
function openTerminal({ directory, environment }: Host): (command: string) => Promise<string> {
  const shell = spawn('sh', ['-e'], { cwd: directory, env: environment, stdio: 'pipe' })
  onTestFinished(() => void shell.stdin.end())
  let [output, errors] = ['', '']
  shell.stdout.on('data', (chunk) => (output += chunk))
  shell.stderr.on('data', (chunk) => (errors += chunk))
  return async (command) => {
    output = ''
    shell.stdin.write(`{ ${command}} < /dev/null; printf '\\0'\n`)
    await expect.poll(() => output.endsWith('\0') || shell.exitCode !== null, { timeout: 60_000 }).toBe(true)
    if (shell.exitCode !== null) throw new Error(`${command}${errors}`)
    return output.slice(0, -1)
  }
}

it.skipIf(!(nginx && mysql && python && chromiumPath))(
  'docs/tutorial.md: prints what it shows, from the first buyer to a page behind TLS and a restored backup',
  async () => {
    const host = await prepareHost()
    const { here, save } = host
    const run = openTerminal(host)
    const browser = await chromium.launch({ executablePath: String(chromiumPath), ...host.launch })
    onTestFinished(() => browser.close())
    const page = await browser.newPage({ ignoreHTTPSErrors: true })
    let stopNth: (() => Promise<unknown>) | undefined
    let [thanks, printed, key, tested] = ['', '', '', 0]
    for (const { kind, text, shown } of stepsOf(
      here(await readFile(join(ROOT, 'docs/tutorial.md'), 'utf8')),
    )) {
      if (kind === 'stop') await stopNth?.()
      else if (kind === 'sh' && text.includes('npm start')) {
        // .ci/fresh-start runs `npm ci` in a clone.
        const command = text.replace('npm ci\n', '')
        stopNth = await startServer(host, command, here('http://127.0.0.1:4000/ready'))
      } else if (kind === 'sh' && text.includes('http.server')) {
        await startServer(host, text, here('http://127.0.0.1:8080'))
      } else if (kind === 'sh') printed += await run(text)
      else if (kind === 'html') thanks = text
      else if (kind === 'js') {
        for (const line of text.replace('nth_…', key).trim().split('\n'))
          thanks = thanks.replace(new RegExp(line.split(' ').slice(0, 2).join(' ').concat(' .*')), line)
      } else if (kind === 'graphql') {
        const body = JSON.stringify({ query: text })
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(here('http://127.0.0.1:4000/graphql'), { method: 'POST', headers, body })
        expect((await response.json()).errors).toBeUndefined()
      } else if (kind === 'address') {
        for (const visit of [() => page.goto(text), () => page.reload()]) {
          await visit()
          await page.waitForFunction("!document.querySelector('p').textContent.includes('…')")
          const number = `${await page.locator('p').textContent()}\n`
          if (printed.endsWith(number)) continue
          printed += number
        }
      } else throw new Error(`A reader of the tutorial does not know what to do with a block of ${kind}`)
      if (kind === 'html' || kind === 'js') await save('site/thanks.html', thanks)
      key = /^nth_\w+$/m.exec(printed)?.[0] ?? key
      if (shown === undefined) continue
      expectShown(printed, shown)
      ;[printed, tested] = ['', tested + 1]
    }
    expect(tested).toBe(8)
  },
)
