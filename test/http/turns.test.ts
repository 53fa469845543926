import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import type { Request } from '../../src/commit/call.ts'
import type { Connection } from '../../src/mysql/connection.ts'
import type { Database } from '../../src/mysql/pool.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { JOBS, JOINED } from '../../src/mysql/slots.ts'
import { changeChannel } from '../../src/operations/measures.ts'
import { upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { startFront } from '../support/server/front.ts'

const BY_PROXY = { trustedProxies: ['127.0.0.1'], anonymous: ['ADMIN' as const] }

/** A server behind a proxy, and a client of it at an address. */
async function startBehindProxy(target?: Target) {
  const { url, post, faults } = await startFront({ access: BY_PROXY, target })
  const clientAt = (address: string) => async (query: string) => {
    const { body } = await post(JSON.stringify({ query }), { 'x-forwarded-for': address })
    if (body.errors) throw new Error(JSON.stringify(body.errors))
    return body.data
  }
  return { url, clientAt, faults }
}

const names = (count: number) => JSON.stringify(upTo(count).map((index) => `c${index}`))

/** Within the budget of a request, but several hundred milliseconds of work. */
const CHARTS = `{ counters(names: ${names(10)}) { history(period: HOUR, last: 1200) { start value } } }`
const LIST = `{ counters(names: ${names(100)}) { id name value revision minValue maxValue overflow } }`
const CART = `mutation {
  incrementMany(changes: [${upTo(200).map((index) => `{ name: "c${index}" }`)}]) { value previousValue at }
}`

it.each([
  ['a list', LIST],
  ['a cart', CART],
  ['a chart of its own', CHARTS],
])('turns: answer %s after a few of the requests of another address, however many wait', async (_, query) => {
  const { clientAt, faults } = await startBehindProxy()
  const [greedy, honest] = [clientAt('192.0.2.1'), clientAt('192.0.2.2')]
  await greedy(CART)
  let answered = 0
  const flood = upTo(25).map(async () => {
    await greedy(CHARTS)
    answered += 1
  })
  await expect.poll(() => answered, { interval: 1 }).toBeGreaterThan(0)
  const before = answered
  await honest(query)
  // In one queue for all, it would be answered after the others.
  expect(answered - before).toBeLessThan(12)
  await Promise.all(flood)
  expect(faults).toEqual([])
})

it('turns: are those of the caller for each change', async () => {
  const { clientAt } = await startBehindProxy()
  const send = clientAt('192.0.2.1')
  await send('mutation { defineSequence(name: "invoices", definition: { gapless: true }) { name } }')
  const addresses: (string | undefined)[] = []
  const note = (request: unknown) => addresses.push((request as Request).owner?.address)
  changeChannel.subscribe(note)
  onTestFinished(() => void changeChannel.unsubscribe(note))
  await send(`mutation {
    increment(name: "c", subject: "s") { value }
    incrementMany(changes: [{ name: "c" }]) { value }
    uncount(name: "c", subject: "s") { value }
    reset(name: "c", to: 3) { value }
    resetAll(namespace: "default", prefix: "c") { resetCount }
    defineCounter(name: "c", definition: { maxValue: 9 }) { value }
    deleteCounter(name: "c") { value }
    nextInSequence(name: "tickets") { value }
    once: nextInSequence(name: "tickets", subject: "s") { value }
    restartSequence(name: "tickets") { name }
  }`)
  const { reserve } = await send('mutation { reserve: reserveInSequence(name: "invoices") { id } }')
  await send(`mutation { confirmReservation(id: "${reserve.id}") { state } }`)
  expect(addresses).toEqual(addresses.map(() => '192.0.2.1'))
  expect(addresses.length).toBeGreaterThanOrEqual(12)
})

it('turns: send an event to one address before most of those of another, which has many streams of charts', {
  tags: 'slow',
}, async () => {
  const { url, clientAt, faults } = await startBehindProxy()
  const honest = clientAt('192.0.2.2')
  await honest(CART)
  let events = 0
  const open = async (address: string, query: string) => {
    const stream = await subscribe(url, query, { headers: { 'x-forwarded-for': address }, method: 'POST' })
    expect(await stream.next()).toMatchObject({ data: { counters: expect.anything() } })
    return stream
  }
  const streams = await Promise.all(
    // Each with a name of its own, so that they share nothing; so many that their charts take much longer than a tick.
    upTo(75).map((index) =>
      open('192.0.2.1', CHARTS.replace('{ counters', `subscription S${index} { counters`)),
    ),
  )
  const own = await open('192.0.2.2', 'subscription { counters(names: ["honest"]) { value } }')
  const counting = streams.map(async (stream) => {
    await stream.next()
    events += 1
  })
  await honest('mutation { incrementMany(changes: [{ name: "c1" }, { name: "honest" }]) { value } }')
  await own.next()
  expect(events).toBeLessThan(25)
  // Changed while the charts are still being read: the feeds that work hold up no other.
  await honest('mutation { increment(name: "honest") { value } }')
  expect(await own.next()).toEqual({ data: { counters: [{ value: 2 }] } })
  expect(events).toBeLessThan(streams.length)
  await Promise.all(counting)
  expect(faults).toEqual([])
})

it('turns: change a definition for one address while many changes of another wait for a locked one', async () => {
  const target = await freshDatabase()
  const { clientAt, faults } = await startBehindProxy(target)
  const [greedy, honest] = [clientAt('192.0.2.1'), clientAt('192.0.2.2')]
  const define = (name: string) =>
    `mutation { defineSequence(name: "${name}", definition: { step: 2 }) { name } }`
  await honest(define('locked'))
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query('start transaction')
  await holder.query('select id from sequence where id = 1 for update')
  const attempts = collectStatements('for update')
  const flood = upTo(20).map(() => greedy(define('locked')))
  const locking =
    "select 1 from information_schema.processlist where info like '%for update%' and id <> connection_id()"
  await expect.poll(() => query(target, locking)).toHaveLength(2)
  expect(await honest(define('free'))).toEqual({ defineSequence: { name: 'free' } })
  // Each attempt waits for the lock. In order of arrival, there would be twenty before.
  expect(attempts.length).toBeLessThan(10)
  await holder.query('rollback')
  await Promise.all(flood)
  expect(faults).toEqual([])
})

/** Counts to a billion. */
const THOUSAND =
  '(with recursive n as (select 1 as i union all select i + 1 from n where i < 1000) select i from n)'
const LONG = `select count(*) as many from ${['a', 'b', 'c'].map((table) => `${THOUSAND} ${table}`).join(' join ')}`

it('select: is ended by the server before its attempt ends, and its connection is kept', async () => {
  const database = openTestDatabase(await freshDatabase(), { timeLimitMs: 1500 })
  const connectionOf = async (pool: Database) =>
    (await pool.select<{ id: number }>(JOINED, 'select connection_id() as id'))[0]?.id
  const before = await connectionOf(database)
  await expect(database.select(JOINED, LONG)).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message: 'The database took too long for this; nothing was done.',
  })
  expect(await connectionOf(database)).toBe(before)
  // The session may show the statement a moment longer than its end is reported.
  const running = () =>
    database.select(
      JOINED,
      "select 1 from information_schema.processlist where info like '%with recursive%' and id <> connection_id()",
    )
  await expect.poll(running).toEqual([])
})

it('select: has no time limit in jobs, and in transactions that change rows', async () => {
  const database = openTestDatabase(await freshDatabase())
  const statements = collectStatements('7 as seven')
  const selectSeven = (connection: Connection) => connection.select('select 7 as seven')
  await database.withRetry(JOINED, selectSeven)
  await database.withRetry(JOBS, selectSeven)
  await database.withRetry(JOINED, (connection) => connection.inTransaction(() => selectSeven(connection)))
  const areLimited = statements.map((statement) => /max_(statement|execution)_time/.test(statement))
  expect(areLimited).toEqual([true, false, false])
})
