// @module-tag slow
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { privateServer, privateServerWith } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory, spawnNth, startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { copyWithMigration } from '../support/server/releases.ts'
import { runNth } from '../support/server/transfer.ts'

/** Runs `nth check`. Findings are by subject: their level and message. */
async function check(environment: Record<string, string>, directory?: string) {
  const { code, output, errors } = await runNth(['check'], environment, directory)
  const all = output.split('\n').flatMap((line) => {
    const [, level, subject, message] = /^(\w+) +(.{14}) (.*)$/.exec(line) ?? []
    return subject ? [[subject.trim(), `${level}: ${message}`] as const] : []
  })
  return { code, findings: Object.fromEntries(all), all, errors }
}

/** Statements that create a user who may not change tables. */
const appOf = ({ database }: Target) => [
  "create user app@localhost identified by 'secret'",
  `grant select, insert, update, delete on ${database}.* to app@localhost`,
]

const INCREMENT = 'mutation { increment(name: "c") { value } }'

const SOUND = {
  configuration: 'ok: all variables are valid',
  database: expect.stringMatching(/^ok: .* answers$/),
  settings: 'ok: sessions have the settings that Nth needs',
  rights: 'ok: the user may create, change and read tables',
  clock: expect.stringMatching(/^ok: the database is \d+ ms /),
  connections: expect.stringMatching(/^ok: /),
  packets: expect.stringMatching(/^ok: /),
}

it('nth check: finds nothing wrong with a sound database, and leaves nothing in it', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  expect(findings).toMatchObject({ ...SOUND, migrations: 'ok: all are applied' })
  expect(code).toBe(0)
  expect(await query(target, "show tables like 'nth_check'")).toEqual([])
})

it('nth check: names the expansions of a later version', async () => {
  const target = await freshDatabase()
  await query(target, "insert into expansion values ('9999_more.sql', now())")
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  const message = 'all are applied. This version works beside 9999_more.sql of a later one'
  expect([code, findings.migrations]).toEqual([0, `ok: ${message}`])
})

it('nth check: says which missing migrations older servers can work beside', async () => {
  const environment = { DATABASE_URL: urlOf(await freshDatabase()) }
  const missing = async (text: string) =>
    (await check(environment, await copyWithMigration('9999_more.sql', text))).findings.migrations
  const message = 'the next start applies 9999_more.sql; back up first'
  expect(await missing('-- expands\ndo 0;\n')).toBe(`ok: ${message}`)
  expect(await missing('-- contracts, needs 9.0.0\ndo 0;\n')).toBe(
    `warning: ${message}. 9999_more.sql breaks servers before 9.0.0: stop those first.`,
  )
})

it('nth check: checks the private database of an Nth that runs, and of one that does not', async () => {
  const environment = { NTH_DATA_DIR: await dataDirectory() }
  const stopped = await check(environment)
  expect([stopped.code, stopped.findings]).toMatchObject([0, SOUND])
  expect(stopped.findings.migrations).toMatch(/^ok: the next start applies 0001_/)
  await startNth(environment)
  const running = await check(environment)
  expect([running.code, running.findings]).toMatchObject([0, { ...SOUND, migrations: 'ok: all are applied' }])
})

it('nth check: says what is wrong with a database, and what to do', { tags: 'quick' }, async () => {
  const { target } = await privateServer(await temporaryDirectory())
  await query(
    target,
    ...appOf(target),
    'set global innodb_flush_log_at_trx_commit = 2',
    'set global max_connections = 20',
  )
  const app = { ...target, user: 'app', password: 'secret' }
  const { code, findings, errors } = await check({ DATABASE_URL: urlOf(app), WORKERS: '4' })
  expect(code).toBe(1)
  expect(findings).toMatchObject({
    durability: expect.stringMatching(/^warning: .*innodb_flush_log_at_trx_commit = 2/),
    rights: expect.stringMatching(/^error: .*Grant create on the database/),
    connections: expect.stringMatching(/^warning: .*Raise max_connections/),
  })
  expect(JSON.stringify([findings, errors])).not.toContain('secret')
})

it('nth check: works with a user who may not change tables, once nth migrate has run', async () => {
  const { target } = await privateServer(await temporaryDirectory())
  await query(
    target,
    ...appOf(target),
    "create user reader@localhost identified by 'secret'",
    `grant select on ${target.database}.* to reader@localhost`,
  )
  const as = (user: string) => ({ DATABASE_URL: urlOf({ ...target, user, password: 'secret' }) })
  const migrated = await runNth(['migrate'], { DATABASE_URL: urlOf(target) })
  expect([migrated.code, migrated.output]).toEqual([
    0,
    expect.stringMatching(/^Applied 0001_tables\.sql, .+\.\n$/),
  ])
  expect(await runNth(['migrate'], as('app'))).toMatchObject({
    code: 0,
    output: 'All migrations are applied.\n',
  })
  const { code, findings } = await check(as('app'))
  expect([code, findings]).toMatchObject([
    0,
    { ...SOUND, rights: expect.stringMatching(/^ok: .*nth migrate/) },
  ])
  expect((await (await startNth(as('app'))).ask(INCREMENT)).increment.value).toBe(1)
  expect((await check(as('reader'))).findings.rights).toMatch(/^error: .*Grant insert on the database/)
})

it('nth check: says that a database does not answer, and which variable is wrong', async () => {
  const nowhere = await check({ DATABASE_URL: 'mysql://root@127.0.0.1:1/nth' })
  expect([nowhere.code, nowhere.findings.database]).toEqual([
    1,
    expect.stringMatching(/^error: .*DATABASE_URL/),
  ])
  const { code, errors } = await check({ PORT: 'x' })
  expect([code, errors]).toEqual([1, expect.stringContaining('PORT must be')])
})

it('nth check: finds nothing wrong with a server whose defaults would make statements mean something else', async () => {
  const { target } = await privateServer(await temporaryDirectory())
  await query(target, 'set global sql_safe_updates = 1', 'set global sql_select_limit = 1')
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  expect([code, findings]).toMatchObject([0, SOUND])
})

it('nth check: names the settings that a session ignores', { tags: 'quick' }, async () => {
  const target = await startProxy(await freshDatabase(), (statement) =>
    statement.includes("sql_safe_updates = 'OFF'")
      ? { instead: statement.replace("sql_safe_updates = 'OFF'", 'sql_safe_updates = 1') }
      : 'passes',
  )
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  expect([code, findings.settings]).toEqual([
    1,
    expect.stringMatching(/^error: a session ignores sql_safe_updates = OFF \(it is ON\), /),
  ])
  // What fails for another reason is not a missing right.
  expect(findings.rights).toMatch(/^error: .*safe update mode/)
  expect(findings.rights).not.toContain('Grant')
})

it.each([
  [183784000, '2 days ahead of'],
  [-3780000, '63 minutes behind'],
])('nth check: says how far apart the clocks are, %s ms', async (skewMs, text) => {
  const target = await startProxy(await freshDatabase(), (statement) =>
    statement.includes('utc_timestamp(3) as value')
      ? { instead: statement.replace(' as value', ` + interval ${skewMs}000 microsecond as value`) }
      : 'passes',
  )
  const { findings } = await check({ DATABASE_URL: urlOf(target) })
  expect(findings.clock).toMatch(new RegExp(`^warning: the database is ${text} this machine`))
})

it('nth start: says which right is missing, as nth check does', async () => {
  const { target } = await privateServer(await temporaryDirectory())
  await query(target, ...appOf(target))
  const environment = { DATABASE_URL: urlOf({ ...target, user: 'app', password: 'secret' }) }
  const sentence = 'Grant create on the database: migrations need'
  expect((await check(environment)).findings.rights).toContain(sentence)
  const { exited, errors } = spawnNth(environment)
  expect(await exited).toBe(1)
  expect(errors()).toContain(sentence)
})

it.each([
  [
    40_000,
    1,
    'error: the server accepts statements of up to 39936 bytes, but Nth needs 65536. Set max_allowed_packet',
  ],
  [65_536, 0, 'warning: the server accepts statements of up to 65536 bytes: large requests are refused. Set'],
])('nth check: says that a server takes only short statements: %i', async (bytes, expected, message) => {
  const { target } = await privateServer(await temporaryDirectory())
  await query(target, `set global max_allowed_packet = ${bytes}`)
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  expect([code, findings.packets]).toEqual([expected, expect.stringContaining(message)])
})

it('nth check: says that the clock of the database is years behind, as /ready does', async () => {
  const directory = await temporaryDirectory()
  const root = await privateServerWith(directory, ["--init-connect='set timestamp = 1500000000'"])
  // Those of root ignore this option.
  await query(root, "create user late@'%'", "grant all on nth.* to late@'%'")
  const target = { ...root, database: 'nth', user: 'late' }
  const message = 'The clock of the database is at 2017-07-14T02:40:00.000Z, years behind. Set it.'
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  expect([code, findings.clock]).toEqual([1, `error: ${message}`])
  await migrate(target)
  const { checkDatabase } = openTestNth(target)
  await expect(checkDatabase()).rejects.toMatchObject({ code: 'UNAVAILABLE', message })
})

it('nth check: names sequences whose groups may issue the same text, as an earlier version has let them', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  for (const [name, format, group] of [
    ['mixed', 'INV{group}{value}', ''],
    ['hidden', 'X-{value}', 'a'],
    ['unnamed', 'X-{value}', ''],
    ['sound', 'X-{group}-{value}', 'a'],
  ] as const) {
    await sequences.define({ namespace: 'n', name }, { format, allowRepeats: true })
    await sequences.next({ namespace: 'n', sequence: name, group }, 1)
  }
  await query(target, 'update sequence set allow_repeats = false, restart_every = 99')
  const { code, findings } = await check({ DATABASE_URL: urlOf(target) })
  const names = '"n / mixed", "n / hidden"; in all 2'
  const message = `groups of these sequences may issue the same text: ${names}. Set allowRepeats, or use a new sequence.`
  expect([code, findings.formats]).toEqual([0, `warning: ${message}`])
})

it('nth check: names what is in a time zone of a later version, and what lacks its value, with the cure', async () => {
  const target = await freshDatabase()
  const { counters, holds, sequences } = openTestNth(target)
  for (const name of ['held', 'sound'])
    await holds.hold('n', [{ name, delta: 2 }], { ttlMs: 60_000, longestMs: 60_000 })
  for (const name of ['far', 'lost', 'sound']) {
    await counters.incrementBy({ namespace: 'n', name }, 1)
    await sequences.next({ namespace: 'n', sequence: name, group: 'a' }, 1)
  }
  await query(
    target,
    "update counter set time_zone = 'Mars/Olympus' where name = 'far'",
    "update sequence set time_zone = 'Mars/Olympus' where name = 'far'",
    "delete from counter_value where counter_id = (select id from counter where name = 'lost')",
    "update counter_value set held_up = 1 where counter_id = (select id from counter where name = 'held')",
    `delete from sequence_value where group_id = (
       select g.id from sequence_group g join sequence s on s.id = g.sequence_id where s.name = 'lost')`,
  )
  const { code, all } = await check({ DATABASE_URL: urlOf(target) })
  expect(code).toBe(0)
  const zone = (what: string) =>
    `warning: this version doesn't know the time zones of these ${what}: "n / far"; in all 1. Update Nth, or define another timeZone.`
  expect(all.filter(([subject]) => subject === 'cures').map(([, finding]) => finding)).toEqual([
    zone('counters'),
    zone('sequences'),
    'warning: the database lacks the values of these counters: "n / lost"; in all 1. Reset or delete them.',
    'warning: what these counters hold is not the sum of their holds: "n / held"; in all 1. Reset or delete them.',
    'warning: the database lacks the last numbers of groups of these sequences: "n / lost"; in all 1. Call restartSequence with a nextValue for each group.',
  ])
})
