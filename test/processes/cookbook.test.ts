// @module-tag slow
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { type Client, inParallel, sorted, upTo } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { clientArguments, findMysqlClient, findProgram } from '../support/database/fetchedProgram.ts'
import { stopClock } from '../support/model/periods.ts'
import { freePort } from '../support/server/freePort.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'
import { commandEnvironment } from '../support/server/transfer.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const python = await findProgram('python3', '/usr/bin/python3')
const jq = await findProgram('jq', '/usr/bin/jq')
const mysql = await findMysqlClient()

stopClock()

interface Recipe {
  /** The first line of its block. */
  file: string
  code: string
  /** What the page says that it prints; undefined: nothing. */
  output?: string
}

async function readRecipes(): Promise<Recipe[]> {
  const page = await readFile(join(ROOT, 'docs/cookbook.md'), 'utf8')
  const blocks = page.matchAll(
    /^```\w+\n((?:\/\/|#|<!--) (\w+\.\w+).*\n[\s\S]*?)^```\n(?:\n```text\n([\s\S]*?)^```$)?/gm,
  )
  return [...blocks].map(([, code = '', file = '', output]) => ({
    file,
    code,
    ...(output !== undefined && { output }),
  }))
}

/** Saves all recipes for a server, with what they import. Their calls must succeed: on a busy machine, too. */
async function saveRecipes(url: string): Promise<{ directory: string; recipes: Recipe[] }> {
  const directory = await temporaryDirectory()
  const recipes = await readRecipes()
  await mkdir(join(directory, 'node_modules'))
  await symlink(ROOT, join(directory, 'node_modules/nth-counters'))
  for (const { file, code } of recipes) {
    const patient = code.replace('process.env.API_KEY', 'process.env.API_KEY, timeoutMs: 60_000')
    await writeFile(join(directory, file), patient.replaceAll('http://127.0.0.1:4000', url))
  }
  return { directory, recipes }
}

/** Programs by the ends of the names of recipes. */
const PROGRAMS: Partial<Record<string, string | undefined>> = {
  mjs: process.execPath,
  py: python,
  sh: jq && '/bin/sh',
}

/** Where programs that were fetched find each other and their libraries. */
const env = {
  HOME: process.env.HOME,
  PATH: [dirname(jq ?? '/'), process.env.PATH].join(':'),
  LD_LIBRARY_PATH: [python, jq]
    .flatMap((program) => (program ? [dirname(dirname(program))] : []))
    .flatMap((prefix) => ['x86_64', 'aarch64'].map((machine) => `${prefix}/lib/${machine}-linux-gnu`))
    .join(':'),
}

/** Recipes that print nothing, which other tests run. */
const SILENT = [
  ...['nth.mjs', 'nth.py', 'hits.html', 'downloads.mjs', 'views.html', 'like.html', 'poll.html'],
  ...['tickets.sh', 'move.sh', 'backup.sh'],
]

it('prints what its page shows', { tags: 'quick' }, async () => {
  const { url, ask } = await startService()
  const { directory, recipes } = await saveRecipes(url)
  expect(recipes.filter(({ output }) => output === undefined).map(({ file }) => file)).toEqual(SILENT)
  expect(recipes.length).toBeGreaterThan(16)
  for (const { file, output } of recipes) {
    const program = PROGRAMS[file.split('.').at(-1) ?? '']
    if (file === 'downloads.mjs') await download(directory, ask)
    if (output === undefined || program === undefined) continue
    const { stdout } = await run(program, [file], { cwd: directory, env })
    expect([file, stdout]).toEqual([file, output])
  }
})

/** Downloads three files of its server, and what is none of them, as browsers and as somebody who only looks. */
async function download(directory: string, ask: Client['ask']): Promise<void> {
  const port = await freePort()
  const path = join(directory, 'downloads.mjs')
  await writeFile(path, (await readFile(path, 'utf8')).replace('8080', String(port)))
  const child = spawn(process.execPath, [path], { cwd: directory, stdio: 'inherit' })
  onTestFinished(() => void child.kill())
  const get = (name: string, method = 'GET') =>
    fetch(`http://127.0.0.1:${port}/${name}`, { method, redirect: 'manual' })
  await expect
    .poll(() =>
      get('setup.dmg', 'HEAD').then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(302)
  const answers = await Promise.all(['setup.exe', 'setup.exe', 'setup.dmg', 'other'].map((name) => get(name)))
  expect(answers.map(({ status, headers }) => [status, headers.get('location')])).toEqual([
    [302, 'https://files.example/setup.exe'],
    [302, 'https://files.example/setup.exe'],
    [302, 'https://files.example/setup.dmg'],
    [404, null],
  ])
  const counts = '{ counters(names: ["setup.exe", "setup.dmg", "other"], namespace: "downloads") { value } }'
  await expect
    .poll(async () => (await ask(counts)).counters)
    .toEqual([{ value: 2 }, { value: 1 }, { value: 0 }])
  const closed = once(child, 'close')
  child.kill()
  await closed
}

it('has recipes of less than forty lines', async () => {
  for (const { file, code } of await readRecipes())
    expect([file, code.split('\n').length < 40]).toEqual([file, true])
})

/** Imports a recipe of JavaScript, which runs it once. */
async function importRecipe<Exports>(url: string, file: string): Promise<Exports> {
  const { directory } = await saveRecipes(url)
  return import(pathToFileURL(join(directory, file)).href)
}

it('sells exactly 100 seats to many at once', async () => {
  const { url, ask } = await startService()
  const { sell } = await importRecipe<{ sell(pay: () => Promise<void>): Promise<string> }>(url, 'seats.mjs')
  const results = await inParallel(30, 150, (index) =>
    sell(async () => {
      if (index < 10) throw new Error('The card was declined')
    }),
  )
  const count = (wanted: string) => results.filter((result) => result === wanted).length
  expect(count('Not paid')).toBe(10)
  // The recipe itself has sold one.
  expect([count('Sold') <= 99, count('Sold') + count('Sold out')]).toEqual([true, 140])
  while ((await sell(async () => {})) === 'Sold') results.push('Sold')
  expect(count('Sold')).toBe(99)
  expect(await ask('{ counter(name: "seats", namespace: "theatre") { value } }')).toEqual({
    counter: { value: 100 },
  })
})

it('keeps a quota that many use at once, and one that was raised or lowered', async () => {
  const { url } = await startService()
  type Use = (customer: string, amount: number, quota: number) => Promise<number | undefined>
  const { use } = await importRecipe<{ use: Use }>(url, 'quota.mjs')
  const left = await inParallel(30, 60, () => use('Umbrella', 50, 1000))
  const granted = left.filter((rest) => rest !== undefined)
  expect(sorted(granted)).toEqual(upTo(20).map((n) => 50 * (n - 1)))
  expect([await use('Umbrella', 50, 1050), await use('Umbrella', 1, 1050)]).toEqual([0, undefined])
  expect(await use('Umbrella', 1, 900)).toBeUndefined()
})

it('counts one vote of each voter', async () => {
  const { url } = await startService()
  const { vote } = await importRecipe<{ vote(choice: string, voter: string): Promise<string> }>(
    url,
    'vote.mjs',
  )
  const votes = await inParallel(20, 60, (index) => vote('cocoa', `voter ${index % 20}`))
  expect(votes.filter((text) => text.startsWith('cocoa'))).toHaveLength(20)
  expect(votes.filter((text) => text.endsWith('has voted before.'))).toHaveLength(40)
})

it('issues invoices without gaps, though many fail at once', async () => {
  const { url } = await startService()
  type Issue = (date: string, writeDraft: () => Promise<void>) => Promise<string>
  const { issue } = await importRecipe<{ issue: Issue }>(url, 'invoice.mjs')
  const issued = await inParallel(20, 60, (index) =>
    issue('2025-05-05', async () => {
      if (index % 3 === 0) throw new Error('No address')
    }).catch(() => undefined),
  )
  const numbers = issued.filter((number) => number !== undefined)
  expect(numbers).toHaveLength(40)
  // What the last ones released goes to the next.
  for (let more = 0; more < 20; more++) numbers.push(await issue('2025-12-31', async () => {}))
  const texts = upTo(60).map((number) => `INV-2025-${String(number).padStart(5, '0')}`)
  expect(numbers.toSorted()).toEqual(texts)
})

it('sends an API key, if there is one', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['ADD'], namespace: 'shop' }])
  const { directory } = await saveRecipes(url)
  for (const [program, file] of [
    [process.execPath, 'buyer.mjs'],
    [python, 'buyer.py'],
  ] as const) {
    if (program === undefined) continue
    await expect(run(program, [file], { cwd: directory, env })).rejects.toThrow('UNAUTHENTICATED')
    await run(program, [file], { cwd: directory, env: { ...env, API_KEY: secret } })
  }
})

it.runIf(python)('counts once in Python, though answers are lost', async () => {
  const { url, ask } = await startService()
  let requests = 0
  const lossy = createServer(async (request, response) => {
    const body = await text(request)
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': String(request.headers['idempotency-key']),
    }
    const answer = await fetch(`${url}/graphql`, { method: 'POST', headers, body })
    requests += 1
    if (requests === 1) return request.socket.destroy()
    if (requests === 2) return response.writeHead(502, { 'content-type': 'text/html' }).end('<p>Bad gateway')
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
  })
  await new Promise<void>((resolve) => lossy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void lossy.close())
  const { directory } = await saveRecipes(`http://127.0.0.1:${(lossy.address() as AddressInfo).port}`)
  const { stdout } = await run(python ?? '', ['buyer.py'], { cwd: directory, env })
  expect([requests, stdout]).toEqual([3, "{'value': 1, 'thisMonth': 1}\n"])
  expect(await ask('{ counter(name: "Bulldozer", namespace: "shop") { value } }')).toEqual({
    counter: { value: 1 },
  })
})

it.runIf(mysql)('brings numbers from tables', async () => {
  const [target, shop] = [await freshDatabase(), await freshDatabase({ migrated: false })]
  await query(
    shop,
    'create table orders (id int)',
    'insert into orders values (7), (41872)',
    'create table tickets (board varchar(20), number int)',
    "insert into tickets values ('NINJA', 912), ('NINJA', 3), ('ROCK', 41)",
  )
  const code = (await readRecipes()).find(({ file }) => file === 'tickets.sh')?.code ?? ''
  const commands = code
    .replace('mysql --host=127.0.0.1 --user=root', `${mysql} ${clientArguments(shop)}`)
    .replace('--raw shop >', '--raw >')
  const shell = await commandEnvironment(urlOf(target))
  await run('sh', ['-ec', commands], { cwd: String(shell.HOME), env: shell })
  const { ask } = await startService({ target })
  const next = (name: string, group: string) =>
    `nextInSequence(name: "${name}", group: "${group}", namespace: "imported") { value }`
  const mutation = `mutation { a: ${next('order', '')} b: ${next('ticket', 'NINJA')} c: ${next('ticket', 'ROCK')} }`
  expect(await ask(mutation)).toEqual({ a: { value: 41_873 }, b: { value: 913 }, c: { value: 42 } })
})

it.runIf(jq)(
  'brings counters from a service such as CountAPI, or nothing if it does not answer',
  async () => {
    const target = await freshDatabase()
    const values: Record<string, number> = { '/get/my.site/visits': 41_872 }
    const other = createServer(({ url = '' }, response) => {
      const value = values[url]
      response.writeHead(value === undefined ? 404 : 200).end(JSON.stringify({ value }))
    })
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void other.close())
    // It is bound to a port, not to the path of a socket.
    const { port } = other.address() as AddressInfo
    const shell = await commandEnvironment(urlOf(target))
    const code = (await readRecipes()).find(({ file }) => file === 'move.sh')?.code ?? ''
    const commands = code.replace('https://api.countapi.example', `http://127.0.0.1:${port}`)
    const options = {
      cwd: String(shell.HOME),
      env: { ...env, ...shell, PATH: [dirname(jq ?? '/'), shell.PATH].join(':') },
    }
    const move = async (...keys: string[]) => {
      await writeFile(join(String(shell.HOME), 'keys.txt'), keys.map((key) => `${key}\n`).join(''))
      return run('sh', ['-c', commands], options)
    }
    await expect(move('my.site/visits', 'my.site/unknown')).rejects.toThrow('parameter not set')
    const { ask } = await startService({ target })
    const visits = async () =>
      (await ask('{ counter(name: "visits", namespace: "my.site") { value } }')).counter.value
    expect(await visits()).toBe(0)
    await move('my.site/visits')
    expect(await visits()).toBe(41_872)
  },
)
