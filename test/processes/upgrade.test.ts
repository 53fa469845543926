// @module-tag slow
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { type Load, startLoad } from '../support/client/load.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { sums } from '../support/database/totals.ts'
import { FIRST_RELEASE } from '../support/server/firstRelease.ts'
import { createFleet, type Fleet } from '../support/server/fleet.ts'
import { startNth } from '../support/server/nthProcess.ts'
import { compileFirstRelease, copyWithMigration } from '../support/server/releases.ts'
import { soon } from '../support/soon.ts'

/** How many calls of each kind are answered, at least, before the next server is replaced. */
const CALLS = 50

/** How long they may take, in milliseconds. */
const SERVED_MS = 300_000

/** A migration of a later version: a table, an index, and a column in each table that the servers use. */
async function expansionOf(target: Target): Promise<string> {
  const rows = await query(target, 'show tables')
  const tables = rows.map((row) => String(Object.values(row)[0])).filter((name) => !/^migration/.test(name))
  const additions = tables.map(
    (table) => `set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = '${table}' and column_name = 'added_later'),
  'do 0',
  'alter table ${table} add column added_later int not null default 7${table === 'counter' ? ', add key counter_later (added_later)' : ''}');
prepare add_later from @add;
execute add_later;
deallocate prepare add_later;
`,
  )
  const table = 'create table if not exists later (id int not null, primary key (id)) engine = InnoDB;\n'
  return `-- expands\n${table}${additions.join('')}`
}

const DEFINITIONS = `mutation {
  hits: defineCounter(name: "hits", definition: {
    periods: [{ period: HOUR }, { period: DAY }, { period: MONTH }, { period: YEAR }]
  }) { name }
  stock: defineCounter(name: "stock", definition: { minValue: 0, maxValue: 1000000 }) { name }
  views: defineCounter(name: "views", definition: { slots: 4 }) { name }
  invoice: defineSequence(name: "invoice", definition: { gapless: true }) { name }
}`

const INCREMENT = `mutation($name: String!, $key: String) {
  increment(name: $name, idempotencyKey: $key) { value yearly: valueIn(period: YEAR) }
}`

/** The next number of a counter; each replay of a call, by whichever version, returns the same. */
async function count({ ask }: Fleet, name: string, key?: string): Promise<number> {
  return (await ask(INCREMENT, { name, key })).increment.value
}

async function hit({ ask }: Fleet): Promise<number> {
  const { value, yearly } = (await ask(INCREMENT, { name: 'hits' })).increment
  if (yearly !== value) throw new Error(`Hit ${value} is ${yearly} of its year`)
  return value
}

async function order(fleet: Fleet): Promise<number> {
  const key = randomUUID()
  const [first, ...others] = [await count(fleet, 'orders', key), await count(fleet, 'orders', key)]
  if (others[0] !== first) throw new Error(`Order ${first} was ${others[0]} when it was repeated`)
  return first
}

/** A counter that two servers create at the same time. Returns how often it has counted. */
async function meet(fleet: Fleet): Promise<number> {
  const name = randomUUID()
  const values = await Promise.all([count(fleet, name), count(fleet, name)])
  if (`${sorted(values)}` !== '1,2') throw new Error(`A new counter counted ${values}`)
  return values.length
}

async function number({ ask }: Fleet, group: string): Promise<number> {
  const next = 'mutation($group: String!) { nextInSequence(name: "ticket", group: $group) { value } }'
  return (await ask(next, { group })).nextInSequence.value
}

/** Reserves a number on one server, and confirms it on the next one. Each third reservation is released instead. */
async function invoice({ ask }: Fleet, turn: { count: number }): Promise<number> {
  while (true) {
    const { id } = (await ask('mutation { reserveInSequence(name: "invoice") { id } }')).reserveInSequence
    const close = ++turn.count % 3 === 0 ? 'releaseReservation' : 'confirmReservation'
    const closed = (await ask(`mutation($id: ID!) { closed: ${close}(id: $id) { value } }`, { id })).closed
    if (close === 'confirmReservation') return closed.value
  }
}

it('upgrade: upgrades from the first release under load, and goes back to it, without a wrong number', async () => {
  const target = await freshDatabase({ migrated: false })
  const first = await compileFirstRelease()
  const fleet = createFleet({ DATABASE_URL: urlOf(target) })
  let [one, two] = await Promise.all([fleet.start(first), fleet.start(first)])
  await fleet.ask(DEFINITIONS)
  const later = await copyWithMigration('9999_later.sql', await expansionOf(target))

  const turn = { count: 0 }
  const loads = {
    hits: startLoad(8, () => hit(fleet)),
    stock: startLoad(2, () => count(fleet, 'stock')),
    views: startLoad(4, () => count(fleet, 'views')),
    orders: startLoad(4, () => order(fleet)),
    meetings: startLoad(4, () => meet(fleet)),
    ours: startLoad(4, () => number(fleet, 'OURS')),
    theirs: startLoad(2, () => number(fleet, 'THEIRS')),
    invoices: startLoad(6, () => invoice(fleet, turn)),
  }
  const all: Load[] = Object.values(loads)
  /** Waits until both servers have answered calls of each kind. */
  async function served(): Promise<void> {
    const before = fleet.members.map(({ answered }) => answered)
    await soon(
      'every kind of call is answered',
      Promise.all(all.map((load) => load.afterMore(CALLS))),
      // Thousands of calls, by four versions of servers on one machine.
      SERVED_MS,
    ).finally(() => expect(all.flatMap(({ refused }) => refused)).toEqual([]))
    expect(fleet.members).toHaveLength(2)
    for (const [index, { answered }] of fleet.members.entries()) {
      expect(answered).toBeGreaterThan(CALLS + (before[index] ?? 0))
    }
  }

  await served()
  one = await fleet.replace(one, later)
  await served()
  two = await fleet.replace(two, later)
  await served()
  one = await fleet.replace(one, first)
  await served()
  two = await fleet.replace(two, first)
  await served()
  await Promise.all(all.map((load) => load.end()))
  expect(all.flatMap(({ refused }) => refused)).toEqual([])

  // Each number of an answer is unique, and none is missing.
  const { hits, stock, views, orders, meetings, ours, theirs, invoices } = loads
  for (const { answered } of [hits, stock, orders, ours, theirs]) {
    expect(sorted(answered)).toEqual(upTo(answered.length))
  }
  while (Math.max(...invoices.answered) > invoices.answered.length) {
    invoices.answered.push(await invoice(fleet, turn))
  }
  expect(sorted(invoices.answered)).toEqual(upTo(invoices.answered.length))

  for (const { server } of [one, two]) {
    expect(server.errors()).toBe('')
    const values = await server.ask(`{
      counters(names: ["hits", "stock", "views", "orders"]) { value }
      sequence(name: "ticket") { ours: group(name: "OURS") { lastValue } theirs: group(name: "THEIRS") { lastValue } }
    }`)
    const counted = [hits, stock, views, orders].map(({ answered }) => ({ value: answered.length }))
    const [ourLast, theirLast] = [ours, theirs].map(({ answered }) => ({ lastValue: answered.length }))
    expect(values).toEqual({ counters: counted, sequence: { ours: ourLast, theirs: theirLast } })
  }
  const added = [hits, stock, views, orders].reduce((sum, { answered }) => sum + answered.length, 0)
  const total = added + meetings.answered.reduce((sum, counted) => sum + counted, 0)
  expect(await sums(target)).toEqual([total, total, total, total])

  const files = await query(target, 'select convert(name using utf8mb4) as name from migration order by name')
  expect(files.map(({ name }) => name)).toEqual(FIRST_RELEASE.migrations)
  expect(await query(target, "select 1 from expansion where name = '9999_later.sql'")).toHaveLength(1)
  expect(await query(target, 'select distinct added_later from counter_value')).toEqual([{ added_later: 7 }])
})

it('upgrade: has grants that count once per subject refused by the first release', async () => {
  const environment = {
    DATABASE_URL: urlOf(await freshDatabase({ migrated: false })),
    NTH_ADMIN_KEY: ADMIN_KEY,
  }
  const before = await startNth(environment, [], await compileFirstRelease())
  const present = await startNth(environment)
  const grants = '[{ scopes: [ADD, READ], onceOnly: true }, { scopes: [READ], namespace: "other" }]'
  const create = `mutation { createApiKey(label: "likes", grants: ${grants}) { secret } }`
  const { secret } = (await as(present, ADMIN_KEY).ask(create)).createApiKey
  expect(await as(present, secret).ask('{ counter(name: "likes") { value } }')).toEqual({
    counter: { value: 0 },
  })
  const { refusal, ask } = as(before, secret)
  for (const call of [
    'mutation { increment(name: "likes") { value } }',
    '{ counter(name: "likes") { value } }',
  ])
    expect(await refusal(call)).toEqual({ code: 'FORBIDDEN' })
  expect(await ask('{ counter(namespace: "other", name: "likes") { value } }')).toEqual({
    counter: { value: 0 },
  })
  const list = '{ apiKeys { nodes { label grants { scopes } } } }'
  expect(await as(before, ADMIN_KEY).ask(list)).toEqual({
    apiKeys: { nodes: [{ label: 'likes', grants: [{ scopes: [] }, { scopes: ['READ'] }] }] },
  })
  expect(await as(present, ADMIN_KEY).ask(list)).toEqual({
    apiKeys: { nodes: [{ label: 'likes', grants: [{ scopes: ['ADD', 'READ'] }, { scopes: ['READ'] }] }] },
  })
})
