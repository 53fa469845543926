// @module-tag slow
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import { findChromium } from '../support/browser/chromium.mjs'
import { clientOf } from '../support/client/client.ts'
import { query } from '../support/database/database.ts'
import {
  clientArguments,
  findMysqlClient,
  findNginx,
  findProgram,
} from '../support/database/fetchedProgram.ts'
import { privateServerWith } from '../support/database/privateServer.ts'
import { freePort } from '../support/server/freePort.ts'
import { temporaryPaths } from '../support/server/nginx.ts'
import { dataDirectory, temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const nginx = await findNginx()
const mysql = await findMysqlClient()
const python = await findProgram('python3', '/usr/bin/python3')
const chromiumPath = findChromium()
const PAGE = 'site/thanks.html'

/** What a reader does: runs, saves or compares a block, opens the page at an address, or stops the server. */
const STEP = /^```(\w+)\n([\s\S]*?)^```$|<(https?:[^>\s]+order=\d+)>|Stop Nth with Ctrl-C/gm

/**
 * A host with a clone in which `npm ci` has run, with MariaDB, and with a website shop.example. `here` replaces the ports and
 * the paths of a text with those that this machine has for this test.
 */
async function prepareHost() {
  const directory = await temporaryDirectory()
  const usual = ['4000', '4001', '8080', '3306', '80', '443']
  const free = await Promise.all(usual.map(async (port) => [port, await freePort()] as const))
  const ports: Record<string, number> = Object.fromEntries(free)
  const here = (text: string) =>
    text
      .replace(/(?<=127\.0\.0\.1:|http\.server )\d{4}\b/g, (port) => String(ports[port] ?? port))
      .replace(/(?<=listen )\d+/g, (port) => `127.0.0.1:${ports[port]}`)
      .replaceAll(' /etc/', ` ${directory}/etc/`)
  const save = (path: string, text: string, mode = 0o644) =>
    writeFile(join(directory, path), here(text), { mode })
  for (const path of ['programs', 'site', 'deploy', 'etc/nginx/conf.d'])
    await mkdir(join(directory, path), { recursive: true })
  for (const path of ['bin', 'package.json']) await symlink(join(ROOT, path), join(directory, path))
  await symlink(await dataDirectory(), join(directory, '.nth'))
  await save('deploy/nginx.conf', await readFile(join(ROOT, 'deploy/nginx.conf'), 'utf8'))
  await save(
    'nginx.conf',
    `${process.getuid?.() === 0 ? 'user root;' : ''} pid nginx.pid; events {}
     http {
       access_log off; ${temporaryPaths(directory)} include /etc/nginx/conf.d/*.conf;
       server {
         listen 443 ssl http2; server_name shop.example; root site;
         ssl_certificate /etc/ssl/nth.example/fullchain.pem; ssl_certificate_key /etc/ssl/nth.example/privkey.pem;
       }
     }`,
  )
  const options = ['--skip-networking=OFF', '--bind-address=127.0.0.1', `--port=${ports[3306]}`]
  const server = await privateServerWith(await temporaryDirectory(), options)
  // A private server has this database from the beginning.
  await query(server, 'drop database nth')
  const programs = {
    sudo: '"$@"',
    mariadb: `${mysql} ${clientArguments({ ...server, database: 'mysql' })} "$@"`,
    python3: `${python} "$@"`,
    nginx: `${nginx} -p ${directory} -c nginx.conf -e error.log "$@"`,
    systemctl: 'nginx',
  }
  for (const [name, command] of Object.entries(programs))
    await save(`programs/${name}`, `#!/bin/sh\nexec ${command}\n`, 0o755)
  const env = {
    ...{ PATH: `${directory}/programs:${process.env.PATH}`, HOME: directory, PORT: String(ports[4000]) },
    ...{ NTH_DATABASE_MEMORY_MB: '128', npm_config_update_notifier: 'false' },
    // Without `prestart`: it is built, and other tests use what was built.
    npm_config_ignore_scripts: 'true',
  }
  return { here, save, ports, options: { cwd: directory, env } }
}

it.skipIf(!(nginx && mysql && python && chromiumPath))(
  'docs/tutorial.md: prints what it shows, from the first buyer to a page behind TLS and a restored backup',
  async () => {
    const { here, save, ports, options } = await prepareHost()
    /** Runs a server in a terminal of its own. Returns what Ctrl-C does there. */
    async function serve(command: string, address: string): Promise<() => Promise<void>> {
      const child = spawn('sh', ['-ec', command], { ...options, stdio: 'ignore', detached: true })
      const closed = once(child, 'close')
      async function stop() {
        if ((child.exitCode ?? child.signalCode) !== null) return
        process.kill(-Number(child.pid), 'SIGINT')
        await closed
      }
      onTestFinished(stop)
      const isServing = () => fetch(address).then(Boolean, () => child.exitCode)
      await expect.poll(isServing, { timeout: 120_000 }).toBe(true)
      return stop
    }
    /** Runs commands in a terminal that keeps its variables. Returns what they print. */
    async function run(commands: string): Promise<string> {
      const script = `touch variables; set -a; . ./variables; ${commands} export -p >variables`
      // Lines of CSV end in CRLF, which a terminal doesn't show.
      return (await promisify(execFile)('sh', ['-ec', script], options)).stdout.replaceAll('\r', '')
    }
    const args = [`--host-resolver-rules=MAP *.example:443 127.0.0.1:${ports[443]}`]
    const browser = await chromium.launch({ executablePath: String(chromiumPath), args })
    onTestFinished(() => browser.close())
    onTestFinished(() => run('nginx -s stop || true\n').then(() => undefined))
    const window = await browser.newPage({ ignoreHTTPSErrors: true })
    async function visit(go: () => Promise<unknown>): Promise<string> {
      await go()
      await window.waitForFunction("!document.querySelector('p').textContent.includes('…')")
      return `${await window.locator('p').textContent()}\n`
    }

    let [printed, key, comparisons, stopNth] = ['', '', 0, async () => {}]
    const tutorial = here(await readFile(join(ROOT, 'docs/tutorial.md'), 'utf8'))
    for (const [, language, text = '', address] of tutorial.matchAll(STEP)) {
      if (address) {
        const number = await visit(() => window.goto(address))
        expect(await visit(() => window.reload())).toBe(number)
        printed += number
      } else if (text.includes('npm start')) {
        // .ci/fresh-start runs `npm ci` in a clone.
        stopNth = await serve(text.replace('npm ci', ''), here('http://127.0.0.1:4000/ready'))
      } else if (text.includes('http.server')) await serve(text, here('http://127.0.0.1:8080'))
      else if (language === 'sh') printed += await run(text)
      else if (language === 'graphql') await clientOf(here('http://127.0.0.1:4000')).ask(text)
      else if (language === 'html') await save(PAGE, text)
      else if (language === 'js') {
        let page = await readFile(join(options.cwd, PAGE), 'utf8')
        for (const line of text.replace('nth_…', key).trim().split('\n'))
          page = page.replace(new RegExp(`${/^\S+ \S+/.exec(line)} .*`), line)
        await save(PAGE, page)
      } else if (language === 'text') {
        const parts = text.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
        expect(printed).toMatch(new RegExp(`^${parts.join('[^]+')}$`))
        key = /^nth_\w+$/m.exec(printed)?.[0] ?? key
        ;[printed, comparisons] = ['', comparisons + 1]
      } else await stopNth()
    }
    expect(comparisons).toBe(8)
  },
)
