import { EventEmitter, once } from 'node:events'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Hosts } from '../../src/mysql/hosts.ts'
import { Database } from '../../src/mysql/pool.ts'
import { causalSettings, hostOf, type Target, type Targets } from '../../src/mysql/settings.ts'
import { JOINED } from '../../src/mysql/slots.ts'
import { SILENT } from '../../src/operations/log.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { type Delivery, startProxy } from '../support/database/proxy.ts'
import { onFinished, openOnce } from '../support/openOnce.ts'
import { AMPLE_MS, openTestNth } from '../support/server/nth.ts'
import { spawnNth } from '../support/server/nthProcess.ts'
import { PATIENCE_MS } from '../support/soon.ts'

const key = (name: string) => ({ namespace: 'n', name })

/** What a proxied server says of itself instead of its own answers. */
interface Says {
  variables?: Record<string, string>
  status?: Record<string, string>
  members?: [id: string, state: string, role: string][]
}

const rows = (values: Record<string, string>) =>
  Object.entries(values)
    .map(([name, value]) => `select '${name}' as Variable_name, '${value}' as Value`)
    .join(' union all ')

function deliveryOf(statement: string, says: Says): Delivery {
  const own = says.variables?.server_uuid
  const isPrimary = says.members?.some(
    ([id, state, role]) => id === own && state === 'ONLINE' && role === 'PRIMARY',
  )
  const members = says.members?.map(
    ([id, state, role]) => `select '${id}' as id, '${state}' as state, '${role}' as role`,
  )
  const answers: [RegExp, string | undefined][] = [
    [VARIABLES, says.variables && rows({ hostname: 'a', ...says.variables })],
    [/show global status where variable_name in \('wsrep_cluster[^;]*/, says.status && rows(says.status)],
    [/select member_id as id[^;]*/, members?.join(' union all ')],
    // The end of a flush.
    [IS_PRIMARY, members && (isPrimary ? '1' : '0')],
    // Only nodes have it.
    [/set session[^;]* wsrep_\w+ = [^;]*/g, 'do 0'],
  ]
  let instead = statement
  for (const [pattern, answer] of answers)
    if (answer !== undefined) instead = instead.replace(pattern, answer)
  return instead === statement ? 'passes' : { instead }
}

/** Asks for the status of a server, which may follow the settings of a session in one text. */
const VARIABLES = /show variables where [^;]*'server_uuid', 'read_only'[^;]*/
const IS_PRIMARY = /exists \(\s*select 1\s+from performance_schema\.replication_group_members[^)]*\)/

type Proxied = Awaited<ReturnType<typeof server>>

/** A server that says what the last argument of `become` is. With `nothing` it still lets clients in. */
async function server(target: Target, first: Says) {
  let says: Says | 'nothing' = first
  const asks = new EventEmitter()
  const proxy = await startProxy(target, (statement) => {
    if (says === 'nothing') return /^\w+ /.test(statement) ? 'vanishes' : 'passes'
    if (VARIABLES.test(statement)) asks.emit('query')
    return deliveryOf(statement, says)
  })
  return {
    target: proxy,
    /** Emits `query` when its status is queried. */
    asks,
    become(next: Says | 'nothing'): void {
      says = next
    },
  }
}

const node = (status: Record<string, string> = {}): Says => ({
  variables: { wsrep_on: 'ON' },
  status: {
    wsrep_cluster_status: 'Primary',
    wsrep_ready: 'ON',
    wsrep_local_state: '4',
    wsrep_local_state_comment: 'Synced',
    wsrep_cluster_state_uuid: 'cluster',
    wsrep_cluster_conf_id: '7',
    wsrep_cluster_size: '3',
    ...status,
  },
})

const member = (own: string, ...members: [id: string, state: string, role: string][]): Says => ({
  variables: { group_replication_group_name: 'group', hostname: own, server_uuid: own },
  members,
})

const plain: Says = {}
const readOnly: Says = { variables: { read_only: 'ON' } }

function hostsOf(targets: readonly Target[]) {
  const said: string[] = []
  const notices = { ...SILENT, warn: (line: string) => said.push(line) }
  const hosts = new Hosts(targets as readonly Target[] as Targets, notices)
  onFinished(async () => hosts.close())
  return { hosts, said }
}

/** The number of the server that is chosen, or the message of the error if there is none. */
async function chosen(...says: Says[]): Promise<number | string> {
  const database = await openOnce(freshDatabase)
  const servers = await Promise.all(says.map((one) => server(database, one)))
  const targets = servers.map(({ target }) => target)
  const { hosts } = hostsOf(targets)
  return hosts.choose().then(
    (target) => targets.indexOf(target),
    ({ message }: Error) =>
      targets.reduce((text, target, n) => text.replaceAll(hostOf(target), `${n}`), message),
  )
}

it('DATABASE_URL with hosts: uses the first node of a Galera cluster that has all changes, is in it and can be written', async () => {
  expect(await chosen(node(), node(), node())).toBe(0)
  const parted = node({ wsrep_cluster_status: 'non-Primary', wsrep_ready: 'OFF' })
  expect(await chosen(parted, node(), node())).toBe(1)
  expect(await chosen(node({ wsrep_local_state: '1' }), node(), node())).toBe(1)
  const unwritable = { ...node(), variables: { wsrep_on: 'ON', read_only: 'ON' } }
  expect(await chosen(unwritable, unwritable, node())).toBe(2)
  // A donor, which another node copies, is behind.
  expect(await chosen(node({ wsrep_local_state: '2' }), node())).toBe(1)
  expect(await chosen(node({ wsrep_local_state: '2' }))).toBe(0)
  expect(await chosen(parted, parted)).toBe(
    'No database server can be used (0: it has left its Galera cluster; 1: it has left its Galera cluster)',
  )
})

it('DATABASE_URL with hosts: uses no node of a cluster that is split, or whose majority is missing', async () => {
  expect(await chosen(node(), node({ wsrep_cluster_conf_id: '8' }))).toBe(
    'The database servers 0, 1 disagree about the members of their cluster',
  )
  expect(await chosen(node(), node({ wsrep_cluster_state_uuid: 'other' }))).toMatch(
    /disagree about the members/,
  )
  const alone = node({ wsrep_cluster_size: '1' })
  const parted = node({ wsrep_cluster_status: 'non-Primary' })
  expect(await chosen(alone, parted, parted)).toContain(
    '0: its cluster has 1 of 3 members, which is not a majority',
  )
  const half = node({ wsrep_cluster_size: '2' })
  expect(await chosen(half, half, parted, parted)).toContain(
    '0: its cluster has 2 of 4 members, which is not a majority',
  )
})

it('DATABASE_URL with hosts: uses the primary of a replication group, and no server that has left its group', async () => {
  const group: [string, string, string][] = [
    ['a', 'ONLINE', 'PRIMARY'],
    ['b', 'ONLINE', 'SECONDARY'],
    ['c', 'ONLINE', 'SECONDARY'],
  ]
  expect(await chosen(member('b', ...group), member('a', ...group))).toBe(1)
  // Restarted outside its group, it takes changes into a history of its own.
  const outside = member('a', ['a', 'OFFLINE', ''])
  expect(await chosen(outside)).toBe(
    'No database server can be used (0: it is not in its replication group (OFFLINE))',
  )
  const minority = member('a', ['a', 'ONLINE', 'PRIMARY'], ['b', 'UNREACHABLE', ''], ['c', 'UNREACHABLE', ''])
  const majority = member('b', ['b', 'ONLINE', 'PRIMARY'], ['c', 'ONLINE', 'SECONDARY'])
  expect(
    await chosen(minority, majority, member('c', ['b', 'ONLINE', 'PRIMARY'], ['c', 'ONLINE', 'SECONDARY'])),
  ).toBe(1)
})

it('DATABASE_URL with hosts: knows whether a commit took effect when another member of its replication group takes over', async () => {
  const database = await freshDatabase()
  const members = (primary: string): [string, string, string][] => [
    ['a', 'ONLINE', primary === 'a' ? 'PRIMARY' : 'SECONDARY'],
    ['b', 'ONLINE', primary === 'b' ? 'PRIMARY' : 'SECONDARY'],
    ['c', 'ONLINE', 'SECONDARY'],
  ]
  let primary = 'a'
  let isFailing = false
  /** One server for both, which reports a group and, to each, another server's name. */
  const memberOf = (own: string) =>
    startProxy(database, (statement) => {
      if (isFailing && /commit$/.test(statement) && own === 'a') {
        primary = 'b'
        return 'is cut off'
      }
      return deliveryOf(statement, member(own, ...members(primary)))
    })
  const nth = openTestNth([await memberOf('a'), await memberOf('b')])
  expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(1)
  isFailing = true
  expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(2)
  expect(primary).toBe('b')
  expect(nth.faults).toEqual([])
})

it('DATABASE_URL with hosts: skips servers that now belong to another cluster, with one line for the operator', async () => {
  const database = await freshDatabase()
  const [first, second] = [await server(database, node()), await server(database, node())]
  const { hosts, said } = hostsOf([first.target, second.target])
  expect(await hosts.choose()).toBe(first.target)
  first.become(node({ wsrep_cluster_state_uuid: 'another' }))
  for (let times = 0; times < 3; times++) expect(await hosts.choose()).toBe(second.target)
  expect(said).toEqual([
    `Nth uses the database server ${hostOf(first.target)}.`,
    `Nth does not use the database server ${hostOf(first.target)}: it is in another cluster than before.`,
    `Nth uses the database server ${hostOf(second.target)}.`,
  ])
  // It stays, though the first one could be used again.
  first.become(node())
  expect(await hosts.choose()).toBe(second.target)
})

it.each<[string, Says | 'nothing']>([
  ['has left its cluster, though it answers as before', node({ wsrep_cluster_status: 'non-Primary' })],
  ['is silent', 'nothing'],
])(
  'DATABASE_URL with hosts: leaves a node, with all connections, that %s',
  { tags: 'slow' },
  async (_, says) => {
    const database = await freshDatabase()
    const [first, second] = [await server(database, node()), await server(database, node())]
    const nth = openTestNth([first.target, second.target])
    expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(1)
    first.become(says)
    if (says !== 'nothing')
      await expect.poll(() => nth.said).toContain(`Nth uses the database server ${hostOf(second.target)}.`)
    expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(2)
    expect((await nth.counters.read(key('a'))).value).toBe(2)
    expect(nth.said).toContain(`Nth uses the database server ${hostOf(second.target)}.`)
  },
)

it('DATABASE_URL with hosts: waits for no member of a cluster that did not answer the last time, and uses it when it answers again', async () => {
  const database = await freshDatabase()
  const servers = await Promise.all(upTo(3).map(() => server(database, node())))
  const [first, second, third] = servers as [Proxied, Proxied, Proxied]
  const { hosts } = hostsOf(servers.map(({ target }) => target))
  third.become('nothing')
  expect(await hosts.choose()).toBe(first.target)
  // Its time limit would not end.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  expect(await hosts.choose()).toBe(first.target)
  vi.useRealTimers()
  third.become(node())
  for (const one of [first, second]) one.become(node({ wsrep_cluster_status: 'non-Primary' }))
  await expect.poll(() => hosts.choose().catch(() => undefined)).toBe(third.target)
})

it('DATABASE_URL with hosts: queries servers at most ten times a second while none can be used', async () => {
  const database = await freshDatabase()
  const servers = await Promise.all(upTo(2).map(() => server(database, node({ wsrep_ready: 'OFF' }))))
  const { hosts } = hostsOf(servers.map(({ target }) => target))
  const begunAt = performance.now()
  for (const _ of upTo(5)) await expect(hosts.choose()).rejects.toThrow('No database server can be used')
  // A timer may be a millisecond early.
  expect(performance.now() - begunAt).toBeGreaterThan(4 * 95)
})

it('DATABASE_URL with hosts: ends the wait for an answer when the server is left', async () => {
  const database = await freshDatabase()
  const [first, second] = [await server(database, node()), await server(database, node())]
  const { hosts } = hostsOf([first.target, second.target])
  const host = await hosts.current()
  const answer = host.answer(2 * PATIENCE_MS, new Promise(() => undefined))
  first.become(node({ wsrep_cluster_status: 'non-Primary' }))
  expect(await hosts.choose()).toBe(second.target)
  await expect(answer).rejects.toThrow('Nth no longer uses this database server')
  expect(host.isLeft()).toBe(true)
  expect((await hosts.current()).isLeft()).toBe(false)
})

it('DATABASE_URL with hosts: ends the wait for an answer when the members of the cluster change', async () => {
  const database = await freshDatabase()
  const only = await server(database, node())
  const { hosts } = hostsOf([only.target])
  const host = await hosts.current()
  const answer = host.answer(2 * PATIENCE_MS, new Promise(() => undefined))
  for (const _ of upTo(2)) await hosts.choose()
  expect(host.isLeft()).toBe(false)
  only.become(node({ wsrep_cluster_conf_id: '8' }))
  await hosts.choose()
  await expect(answer).rejects.toThrow('Nth no longer uses this database server')
  expect((await hosts.current()).target).toBe(only.target)
})

it('DATABASE_URL with hosts: queries all servers again when an answer takes half a second', async () => {
  const database = await freshDatabase()
  const [first, second] = [await server(database, node()), await server(database, node())]
  const { hosts } = hostsOf([first.target, second.target])
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const host = await hosts.current()
  let give: ((value: string) => void) | undefined
  const answer = host.answer(
    PATIENCE_MS,
    new Promise<string>((resolve) => {
      give = resolve
    }),
  )
  const queried = Promise.all([first, second].map(({ asks }) => once(asks, 'query')))
  vi.advanceTimersByTime(500)
  await queried
  give?.('answer')
  expect(await answer).toBe('answer')
  // The one that asks every five seconds.
  expect(vi.getTimerCount()).toBe(1)
})

it('DATABASE_URL with hosts: leads those who wait for a connection to the server that is chosen meanwhile', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const [first, second] = [await server(target, node()), await server(target, node())]
  const { hosts } = hostsOf([first.target, second.target])
  const database = new Database(hosts, {
    timeLimitMs: AMPLE_MS,
    maxPending: 100,
  })
  onFinished(database.close)
  const ask = (statement: string) => database.withRetry(JOINED, (connection) => connection.select(statement))
  // More than it has connections.
  const gate = `'${target.database}'`
  const holder = await createConnection(target)
  onTestFinished(() => holder.destroy())
  await holder.query(`do get_lock(${gate}, 0)`)
  const waiting = Promise.allSettled(
    upTo(30).map(() => ask(`do get_lock(${gate}, 1000), release_lock(${gate})`)),
  )
  await expect
    .poll(() =>
      query(
        target,
        "select 1 from information_schema.processlist where info like '%get_lock(%' and id <> connection_id()",
      ),
    )
    .toHaveLength(10)
  first.become(node({ wsrep_cluster_status: 'non-Primary' }))
  expect(await hosts.choose()).toBe(second.target)
  await ask('select 1')
  await holder.query(`do release_lock(${gate})`)
  expect((await waiting).map(({ status }) => status)).toEqual(upTo(30).map(() => 'fulfilled'))
})

it.each([
  ['whose connections ended', endConnections],
  ['whose connections stay', async () => undefined],
])('replication group: the next flush notices that a server %s has left it', async (_, onLeft) => {
  const database = await freshDatabase()
  const only = await server(database, member('a', ['a', 'ONLINE', 'PRIMARY']))
  const nth = openTestNth(only.target, { timeoutMs: 2000 })
  expect((await nth.counters.incrementBy(key('a'), 1)).value).toBe(1)
  only.become(member('a', ['a', 'OFFLINE', '']))
  await onLeft(database)
  await expect(nth.counters.incrementBy(key('a'), 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  expect(await query(database, 'select value from counter_value')).toEqual([{ value: 1 }])
  await expect
    .poll(() => nth.said)
    .toContainEqual(expect.stringContaining('it is not in its replication group (OFFLINE)'))
  only.become(member('a', ['a', 'ONLINE', 'PRIMARY']))
  await expect
    .poll(() => nth.counters.incrementBy(key('a'), 1).catch(() => undefined))
    .toMatchObject({ value: 2 })
})

it.each([
  ['EVENTUAL', 'BEFORE'],
  ['BEFORE_ON_PRIMARY_FAILOVER', 'BEFORE'],
  ['BEFORE', undefined],
  ['AFTER', 'BEFORE_AND_AFTER'],
  ['BEFORE_AND_AFTER', undefined],
])('replication group: makes the consistency %s of a replication group %s', (set, expected) => {
  const settings = causalSettings(new Map([['group_replication_consistency', set]]))
  expect(settings).toEqual(expected ? [`set session group_replication_consistency = '${expected}'`] : [])
})

async function endConnections({ database, ...server }: Target): Promise<void> {
  const list = `select id from information_schema.processlist where db = '${database}'`
  for (const { id } of await query({ ...server, database: 'information_schema' }, list))
    await query({ ...server, database: 'information_schema' }, `kill ${id}`).catch(() => undefined)
}

it.each(['0', '1'])(
  'DATABASE_URL with hosts: refuses servers that are not in a cluster, with NTH_ACCEPT_LOST_COMMITS=%s',
  async (value) => {
    const { database, ...rest } = await freshDatabase()
    const servers = await Promise.all([plain, readOnly].map((says) => server({ ...rest, database }, says)))
    const hosts = servers.map(({ target }) => hostOf(target)).join(',')
    const { exited, errors } = spawnNth({
      DATABASE_URL: `mysql://${rest.user}:${rest.password ?? ''}@${hosts}/${database}`,
      NTH_ACCEPT_LOST_COMMITS: value,
    })
    expect(await exited).toBe(1)
    expect(errors()).toContain('Give one server; a DNS name or a proxy can decide which one it is.')
  },
)

it('DATABASE_URL with hosts: ends the start at once if all servers deny access', async () => {
  const database = await freshDatabase()
  const servers = await Promise.all([1, 2].map(() => startProxy(database, () => 'passes')))
  const { exited, errors } = spawnNth({
    DATABASE_URL: `mysql://nobody:wrong@${servers.map(hostOf).join(',')}/nth`,
  })
  expect(await exited).toBe(1)
  expect(errors()).toMatch(/^No database server can be used \(.*Access denied.*; .*Access denied/)
})
