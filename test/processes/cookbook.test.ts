// @module-tag slow
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { type Client, inParallel, sorted, upTo } from '../support/client/client.ts'
import { expireAll, numbersIn } from '../support/client/invoices.ts'
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

it('cookbook.md: prints what its page shows', { tags: 'quick' }, async () => {
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

it('cookbook.md: has recipes of less than forty lines', async () => {
  for (const { file, code } of await readRecipes())
    expect([file, code.split('\n').length < 40]).toEqual([file, true])
})

/** Imports a recipe of JavaScript, which runs it once. */
async function importRecipe<Exports>(url: string, file: string): Promise<Exports> {
  const { directory } = await saveRecipes(url)
  return import(pathToFileURL(join(directory, file)).href)
}

interface Payment {
  authorize(): Promise<void>
  capture(): Promise<void>
}

const PAID: Payment = { authorize: async () => {}, capture: async () => {} }

async function startSale() {
  const { url, target } = await startService()
  const { sell } = await importRecipe<{ sell(payment: Payment): Promise<string> }>(url, 'seats.mjs')
  return { sell, target }
}

const seatsOf = (numbers: number[]) => numbers.map((number) => `Seat ${number}`).toSorted()

it('cookbook.md: sells exactly 100 seats to many at once', async () => {
  const { sell, target } = await startSale()
  const results = await inParallel(30, 150, (index) =>
    sell({
      ...PAID,
      authorize: async () => {
        if (index < 10) throw new Error('The card was declined')
      },
    }),
  )
  expect(results.filter((result) => result === 'Not paid')).toHaveLength(10)
  while (!results.includes('Sold out')) results.push(await sell(PAID))
  for (let result = await sell(PAID); result !== 'Sold out'; result = await sell(PAID)) results.push(result)
  // The recipe itself has sold the first one.
  expect(results.filter((result) => result.startsWith('Seat')).toSorted()).toEqual(
    seatsOf(upTo(100).slice(1)),
  )
  expect((await numbersIn(target)).confirmed).toEqual(upTo(100))
})

it('cookbook.md: sells the seats of buyers again that died before they had paid, and takes no money for those', async () => {
  const { sell, target } = await startSale()
  const dying: (() => void)[] = []
  let captured = 0
  const capture = async () => void captured++
  const lost = inParallel(99, 99, () =>
    sell({ authorize: () => new Promise((die) => dying.push(die)), capture }),
  )
  await expect.poll(() => dying.length).toBe(99)
  expect(await sell(PAID)).toBe('Sold out')
  await expireAll(target)
  const sold = await inParallel(30, 99, () => sell({ ...PAID, capture }))
  expect(sold.toSorted()).toEqual(seatsOf(upTo(100).slice(1)))
  expect([captured, await sell(PAID)]).toEqual([99, 'Sold out'])
  // They come back to life.
  for (const wake of dying) wake()
  await expect(lost).rejects.toMatchObject({ code: 'RESERVATION_CLOSED' })
  expect([captured, (await numbersIn(target)).confirmed]).toEqual([99, upTo(100)])
})

it('cookbook.md: lets 50 orders use a voucher, each once', async () => {
  const { url } = await startService()
  type Redeem = (order: string) => Promise<number | undefined>
  const { redeem } = await importRecipe<{ redeem: Redeem }>(url, 'voucher.mjs')
  const ask = () => inParallel(30, 180, (index) => redeem(`order ${index % 60}`))
  const first = await ask()
  expect(await ask()).toEqual(first)
  const uses = first.slice(0, 60)
  expect([first.slice(60, 120), first.slice(120)]).toEqual([uses, uses])
  expect(sorted(uses.filter((use) => use !== undefined))).toEqual(upTo(50))
})

it('cookbook.md: lets exactly one of 4 000 calls reach each goal', async () => {
  const { url } = await startService()
  type Give = (amount: number, goals: number[]) => Promise<number[]>
  const { give } = await importRecipe<{ give: Give }>(url, 'goals.mjs')
  // The recipe has given 320, and these give 15 994.
  const goals = [321, ...upTo(159).map((index) => 100 * index + 320)]
  const reached = await inParallel(64, 4000, (index) => give(1 + (index % 7), goals))
  expect(sorted(reached.flat())).toEqual(goals)
})

it('cookbook.md: calls each number of a line once, by several clerks, and only those that were taken', async () => {
  const { url } = await startService()
  type Line = { take(visitor: string): Promise<number>; call(): Promise<number | undefined> }
  const { take, call } = await importRecipe<Line>(url, 'line.mjs')
  const taking = inParallel(10, 60, (index) => take(`visitor ${index % 30}`))
  const called: (number | undefined)[] = []
  while (called.length < 30) {
    const round = await Promise.all([call(), call(), call()])
    called.push(...round.filter((number) => number !== undefined))
  }
  const taken = await taking
  // The recipe itself had two visitors.
  const numbers = upTo(32).slice(2)
  expect([sorted(taken.slice(0, 30)), taken.slice(30)]).toEqual([numbers, taken.slice(0, 30)])
  expect(sorted(called.filter((number) => number !== undefined))).toEqual(numbers)
  expect(await call()).toBeUndefined()
})

it('cookbook.md: keeps a quota that many use at once, and one that was raised or lowered', async () => {
  const { url } = await startService()
  interface Quota {
    define(customer: string, quota: number): Promise<unknown>
    use(customer: string, amount: number): Promise<number | undefined>
  }
  const { define, use } = await importRecipe<Quota>(url, 'quota.mjs')
  await define('Umbrella', 1000)
  const used = await inParallel(30, 60, () => use('Umbrella', 50))
  expect(sorted(used.filter((total) => total !== undefined))).toEqual(upTo(20).map((n) => 50 * n))
  await define('Umbrella', 1050)
  expect([await use('Umbrella', 50), await use('Umbrella', 1)]).toEqual([1050, undefined])
  await define('Umbrella', 900)
  expect(await use('Umbrella', 1)).toBeUndefined()
})

/** Ends the time of all holds that are open. */
async function expireHolds(target: Target): Promise<void> {
  const past = '1000 * unix_timestamp() - 1000'
  await query(
    target,
    `update hold set open_until = ${past}, expires_at = ${past} where open_until is not null`,
    `update counter_value set first_expiry = ${past} where first_expiry is not null`,
  )
}

interface Edition {
  sell(copies: number, pay: (id: string) => Promise<boolean>): Promise<string>
  settle(id: string): Promise<string>
}

async function startEdition() {
  const { url, ask, target } = await startService()
  const { sell, settle } = await importRecipe<Edition>(url, 'edition.mjs')
  const state = async () =>
    (await ask('{ counter(name: "print", namespace: "gallery") { value held } }')).counter
  return { ask, target, sell, settle, state, sellOne: () => sell(1, async () => true) }
}

const copiesOf = (texts: string[]) => sorted(texts.map((text) => Number(text.replace('Copy ', ''))))

it('cookbook.md: sells exactly 100 copies to those who pay, at once', async () => {
  const { sell, sellOne, settle, state } = await startEdition()
  const paid: string[] = []
  const results = await inParallel(30, 150, (index) =>
    sell(1, async (id) => {
      if (index % 3 > 0) paid.push(id)
      return index % 3 > 0
    }),
  )
  while (!results.includes('Sold out')) results.push(await sellOne())
  const copies = results.filter((text) => text.startsWith('Copy'))
  // The recipe itself has sold the first one.
  expect(copiesOf(copies)).toEqual(upTo(100).slice(1))
  expect(await state()).toEqual({ value: 100, held: 0 })
  // After a crash, each hold that was paid is settled again.
  const again = await Promise.all(paid.map(settle))
  expect(again.filter((text) => !copies.includes(text))).toEqual([])
})

it('cookbook.md: sells what was abandoned to others, and refunds whoever pays too late', async () => {
  const { ask, target, sell, sellOne, settle, state } = await startEdition()
  const waiting: ((hasPaid: boolean) => void)[] = []
  const ids: string[] = []
  const pay = (id: string) => {
    ids.push(id)
    return new Promise<boolean>((resolve) => waiting.push(resolve))
  }
  const slow = inParallel(99, 99, () => sell(1, pay))
  await expect.poll(() => waiting.length).toBe(99)
  expect(await sellOne()).toBe('All are being paid for')
  await expireHolds(target)
  expect(await state()).toEqual({ value: 1, held: 0 })
  const sold = await inParallel(30, 90, sellOne)
  expect(copiesOf(sold)).toEqual(upTo(91).slice(1))
  // They pay all the same. There is room for nine of them.
  for (const resolve of waiting) resolve(true)
  const results = await slow
  expect(copiesOf(results.filter((text) => text !== 'Refund it'))).toEqual(upTo(100).slice(91))
  expect(results.filter((text) => text === 'Refund it')).toHaveLength(90)
  expect((await Promise.all(ids.map(settle))).toSorted()).toEqual(results.toSorted())
  expect(await sellOne()).toBe('Sold out')
  // One is refunded.
  await ask(
    'mutation { defineCounter(name: "print", definition: { maxValue: 101 }, namespace: "gallery") { name } }',
  )
  expect([await sellOne(), await sellOne()]).toEqual(['Copy 101', 'Sold out'])
})

it('cookbook.md: lets a person hold two tickets at a time, and others once they are confirmed or abandoned', async () => {
  const { url, ask, target } = await startService()
  interface Tickets {
    hold(person: string): Promise<string | undefined>
    confirm(id: string): Promise<number>
  }
  const { hold, confirm } = await importRecipe<Tickets>(url, 'atMostTwo.mjs')
  // The recipe itself has sold one, and holds two for Ann.
  const people = ['bob', 'cleo', 'dan']
  const ids: string[] = []
  for (const [index, id] of (await inParallel(30, 60, (index) => hold(`${people[index % 3]}`))).entries())
    if (id !== undefined && index % 3 < 2) ids.push(id)
  expect(ids).toHaveLength(4)
  expect(sorted(await Promise.all(ids.map(confirm)))).toEqual([2, 3, 4, 5])
  expect(await Promise.all(people.map(hold))).toEqual([expect.any(String), expect.any(String), undefined])
  await expireHolds(target)
  const more = await inParallel(45, 225, (index) => hold(`person ${index % 45}`))
  expect(more.filter((id) => id !== undefined)).toHaveLength(45)
  const { all, own } = await ask(`{
    all: counter(name: "ticket", namespace: "club") { value held }
    own: counter(name: "held by bob", namespace: "club") { value held }
  }`)
  expect([all, own]).toEqual([
    { value: 5, held: 45 },
    { value: 0, held: 0 },
  ])
})

it('cookbook.md: spends a budget that many hold the worst case of, and gives back what they did not use', async () => {
  const { url, ask, target } = await startService()
  interface Budget {
    define(team: string, budget: number): Promise<unknown>
    spend(team: string, most: number, call: () => Promise<number>): Promise<number | undefined>
  }
  const { define, spend } = await importRecipe<Budget>(url, 'budget.mjs')
  await define('ads', 1000)
  const totals = await inParallel(20, 60, () => spend('ads', 100, async () => 15))
  const spent = totals.filter((total) => total !== undefined)
  expect(sorted(spent)).toEqual(upTo(spent.length).map((call) => 15 * call))
  const state = async () =>
    (await ask('{ counter(name: "ads", namespace: "tokens") { held limits { used } } }')).counter
  const used = 15 * spent.length
  expect(await state()).toEqual({ held: 0, limits: [{ used }] })
  // A program dies during its call.
  let hasCalled = false
  void spend('ads', 1000 - used, () => {
    hasCalled = true
    return new Promise(() => {})
  })
  await expect.poll(() => hasCalled).toBe(true)
  expect(await spend('ads', 1, async () => 1)).toBeUndefined()
  await expireHolds(target)
  expect(await spend('ads', 1000 - used, async () => 1)).toBe(used + 1)
  expect(await state()).toEqual({ held: 0, limits: [{ used: used + 1 }] })
})

it('cookbook.md: never lets a wallet pay more than it has, with what is held', async () => {
  const { url, ask, target } = await startService()
  interface Wallet {
    open(owner: string): Promise<unknown>
    payIn(owner: string, amount: number): Promise<unknown>
    hold(owner: string, amount: number): Promise<string | undefined>
    settle(id: string, owner: string, amount: number): Promise<number>
  }
  const { open, payIn, hold, settle } = await importRecipe<Wallet>(url, 'wallet.mjs')
  await open('bob')
  await payIn('bob', 100)
  const holds = (await inParallel(20, 30, () => hold('bob', 7))).filter((id) => id !== undefined)
  expect(holds).toHaveLength(14)
  const balances = await Promise.all(holds.map((id) => settle(id, 'bob', 5)))
  expect(sorted(balances)).toEqual(upTo(14).map((order) => 25 + 5 * order))
  // An order is abandoned.
  expect([await hold('bob', 30), await hold('bob', 1)]).toEqual([expect.any(String), undefined])
  await expireHolds(target)
  const last = await hold('bob', 30)
  expect(await settle(String(last), 'bob', 30)).toBe(0)
  expect(await ask('{ counter(name: "bob", namespace: "wallet") { value heldDown } }')).toEqual({
    counter: { value: 0, heldDown: 0 },
  })
})

it('cookbook.md: counts one vote of each voter', async () => {
  const { url } = await startService()
  const { vote } = await importRecipe<{ vote(choice: string, voter: string): Promise<string> }>(
    url,
    'vote.mjs',
  )
  const votes = await inParallel(20, 60, (index) => vote('cocoa', `voter ${index % 20}`))
  expect(votes.filter((text) => text.startsWith('cocoa'))).toHaveLength(20)
  expect(votes.filter((text) => text.endsWith('has voted before.'))).toHaveLength(40)
})

it('cookbook.md: numbers each final document once and in order, though programs die before they have stored the number', async () => {
  const { url } = await startService()
  type NumberOf = (document: { id: string; date: string }) => Promise<string>
  const { numberOf } = await importRecipe<{ numberOf: NumberOf }>(url, 'invoice.mjs')
  const texts = upTo(60).map((number) => `INV-2025-${String(number).padStart(5, '0')}`)
  const documents = upTo(60).map((number) => ({ id: `document ${number}`, date: '2025-05-05' }))
  const [early, late] = [documents.slice(0, 20), documents.slice(20)]
  const numbers: string[] = []
  for (const document of early) numbers.push(await numberOf(document))
  expect(numbers).toEqual(texts.slice(0, 20))
  // Nobody has stored those numbers. All ask again, together with later ones, which ask three times.
  const asking = [...early, ...late, ...late, ...late]
  const again = await inParallel(20, asking.length, (index) =>
    numberOf(asking[index] ?? { id: '', date: '' }),
  )
  expect(again.slice(0, 20)).toEqual(numbers)
  expect(again.slice(0, 60).toSorted()).toEqual(texts)
  expect([again.slice(60, 100), again.slice(100)]).toEqual([again.slice(20, 60), again.slice(20, 60)])
})

it('cookbook.md: begins a fiscal year in April', async () => {
  const { url } = await startService()
  const { fiscalYear } = await importRecipe<{ fiscalYear(date: string): string }>(url, 'fiscalYear.mjs')
  const years = ['1999-04-01', '2000-03-31', '2009-12-01', '2099-04-01'].map(fiscalYear)
  expect(years).toEqual(['1999/00', '1999/00', '2009/10', '2099/00'])
})

it('cookbook.md: sends an API key, if there is one', async () => {
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

it.runIf(python)('cookbook.md: counts once in Python, though answers are lost', async () => {
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

it.runIf(mysql)('cookbook.md: brings numbers from tables', async () => {
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
  'cookbook.md: brings counters from a service such as CountAPI, or nothing if it does not answer',
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

it('cookbook.md: backs up into an empty directory, and keeps what it has if it fails', async () => {
  const target = await freshDatabase()
  const { directory, recipes } = await saveRecipes('http://127.0.0.1:4000')
  expect(recipes.map(({ file }) => file)).toContain('backup.sh')
  const shell = await commandEnvironment(urlOf(target))
  const backUp = (databaseUrl: string) =>
    run('sh', ['backup.sh'], { cwd: directory, env: { ...shell, DATABASE_URL: databaseUrl } })
  await backUp(urlOf(target))
  const backups = await readdir(join(String(shell.HOME), 'backups'))
  expect(backups).toEqual([expect.stringMatching(/^20\d\d-\d\d-\d\dT\d\d\.\d\d\.\d\dZ$/)])
  await expect(backUp(urlOf({ ...target, user: 'nobody' }))).rejects.toThrow()
  expect(await readdir(join(String(shell.HOME), 'backups'))).toEqual(backups)
})
