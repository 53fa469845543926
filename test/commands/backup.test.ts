import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { run as runBackup } from '../../src/commands/backup.ts'
import { run as runRestore } from '../../src/commands/restore.ts'
import { upTo } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { runLeaderboardJobs } from '../support/database/leaderboards.ts'
import { wholeState } from '../support/database/wholeState.ts'
import { fillWithAnything, NAMESPACES } from '../support/model/anyState.ts'
import { stopClock } from '../support/model/periods.ts'
import { MICROSECONDS_A_DAY } from '../support/model/revisions.ts'
import { createRandom } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { failureOf, fileWith, type Line, runCommand } from '../support/server/transfer.ts'

stopClock()

const DAY_MS = 86_400_000

type Target = Awaited<ReturnType<typeof freshDatabase>>

/** Backs a database up into a new directory, which is returned. */
async function backedUp(target: Target): Promise<string> {
  const directory = join(await temporaryDirectory(), 'backup')
  const { code, output, errors } = await runCommand(target, ['backup', directory])
  expect([code, errors]).toEqual([0, ''])
  expect(output).toMatch(/^Backed up as of \d{4}-.*Z into .*backup\.\n$/)
  return directory
}

const restored = (target: Target, ...args: string[]) => runCommand(target, ['restore', ...args])

const ADD = (key: string) =>
  `mutation { incrementBy(namespace: "shop", name: "sold", delta: 1, idempotencyKey: "${key}") { value } }`
const CART = `mutation { incrementMany(namespace: "shop", changes: [{ name: "x", delta: 2 }, { name: "y", delta: 3 }],
  idempotencyKey: "cart") { counter { name value } } }`

it('nth restore: restores everything, with API keys and idempotency keys', async () => {
  const before = await freshDatabase()
  await fillWithAnything(before, createRandom(7))
  // Ids are part of the identity that idempotency keys belong to.
  await query(before, 'alter table api_key auto_increment = 50')
  const service = await startProtected({ target: before })
  const grants = [{ scopes: ['ADD', 'READ'], namespace: 'shop', maxDelta: 5 }]
  const onceOnly = [{ scopes: ['ADD', 'READ'], namespace: 'shop', onceOnly: true }]
  const [kept, revoked] = [
    await service.createKey(onceOnly, {
      origins: ['https://shop.example'],
      perMinute: 7,
      documents: ['viewer'],
    }),
    await service.createKey([{ scopes: ['READ'] }]),
  ]
  const server = await service.createKey(grants)
  await service.admin.ask(`mutation { revokeApiKey(id: "${revoked.id}") { id } }`)
  await service.admin.ask(
    'mutation { addTrustedDocuments(documents: [{ documentId: "viewer", text: "{ viewer { kind } }" }]) { documentId } }',
  )
  const first = [
    await service.as(server.secret).ask(ADD('once')),
    await service.as(server.secret).ask(CART),
    await service.admin.ask(ADD('once')),
  ]
  const directory = await backedUp(before)
  expect(await readdir(directory)).toEqual(['nth.jsonl'])
  expect((await stat(directory)).mode & 0o077).toBe(0)
  expect((await stat(join(directory, 'nth.jsonl'))).mode & 0o077).toBe(0)
  expect(await readFile(join(directory, 'nth.jsonl'), 'utf8')).not.toContain(server.secret)

  const after = await freshDatabase()
  const { code, output, errors, audit } = await restored(after, directory)
  expect([code, output]).toEqual([0, expect.stringMatching(/^Restored as of 20.*Z\.\n$/)])
  expect(audit).toEqual([{ field: 'nth restore', by: expect.any(String), count: expect.any(Number) }])
  expect(errors).toMatch(
    /^Trusted documents: 1 created\.\nAPI keys: 3 created\.\nIdempotency keys: \d+ created\.$/m,
  )
  expect(errors).toContain('Numbers issued later will be issued again. nth restore --advance <n>')
  // As the first process does when it starts.
  await runLeaderboardJobs(after)
  const copy = await startProtected({ target: after })
  // Lists by value follow a moment later.
  const state = () => wholeState(service.admin, NAMESPACES)
  await expect.poll(state).toEqual(await wholeState(copy.admin, NAMESPACES))
  const keys =
    'query { apiKeys(first: 9) { nodes { id label prefix grants { scopes namespace maxDelta onceOnly } origins perMinute documents revokedAt createdAt } } }'
  expect(await copy.admin.ask(keys)).toEqual(await service.admin.ask(keys))
  expect((await copy.as(revoked.secret).send('{ viewer { kind } }')).status).toBe(401)
  const page = { authorization: `Bearer ${kept.secret}`, origin: 'https://shop.example' }
  expect((await copy.post('{"documentId":"viewer"}', page)).body).toEqual({
    data: { viewer: { kind: 'KEY' } },
  })
  expect((await copy.as(kept.secret).send('{ viewer { kind } }', {}, page)).status).toBe(403)
  // Repeats are recognised, those of each caller.
  expect([
    await copy.as(server.secret).ask(ADD('once')),
    await copy.as(server.secret).ask(CART),
    await copy.admin.ask(ADD('once')),
  ]).toEqual(first)
  expect(copy.faults).toEqual([])
})

it('nth restore --advance: moves numbers on once past those that were issued after the backup, and lists the others', {
  tags: 'slow',
}, async () => {
  const before = await freshDatabase()
  const { counters, sequences } = openTestNth(before)
  const ns = { namespace: 'shop' }
  const counter = (name: string) => ({ ...ns, name })
  const group = (sequence: string, group = '') => ({ ...ns, sequence, group })
  await sequences.define(counter('down'), { step: -2, startValue: 1000 })
  await sequences.define(counter('daily'), { restartEvery: 'DAY', format: '{yyyy}{MM}{dd}-{value} {group}' })
  await sequences.define(counter('short'), { maxValue: 30 })
  await sequences.define(counter('exact'), { gapless: true })
  await counters.define(counter('stock'), { minValue: 0 })
  await counters.reset(counter('stock'), 90)
  await counters.define(counter('limited'), { maxValue: 20 })
  await counters.define(counter('views'), { slots: 4 })
  const { token } = await sequences.reserve(group('exact', 'a'), 60)
  await sequences.confirm(token)

  const issued: string[] = []
  /** Issues one number of each. */
  async function issue(from: { counters: typeof counters; sequences: typeof sequences }): Promise<void> {
    issued.push(`buyers ${(await from.counters.incrementBy(counter('buyers'), 1)).value}`)
    issued.push(`limited ${(await from.counters.incrementBy(counter('limited'), 1)).value}`)
    for (const key of [group('plain'), group('plain', 'a'), group('down'), group('daily', 'b')]) {
      const { issued: numbers } = await from.sequences.next(key, 1)
      issued.push(`${key.sequence} ${key.group} ${numbers.value}`)
    }
    await from.sequences.next(group('short'), 1)
    await from.counters.incrementBy(counter('views'), 1)
  }
  for (const _ of upTo(5)) await issue({ counters, sequences })
  const directory = await backedUp(before)
  for (const _ of upTo(12)) await issue({ counters, sequences })

  const after = await freshDatabase()
  const { code, output, errors } = await restored(after, directory, '--advance', '50')
  expect([code, errors]).toEqual([0, expect.not.stringContaining('issued again')])
  const lines = output.trimEnd().split('\n')
  expect(lines.at(-1)).toBe('Moved on by 50: 1 counters, 4 sequence groups.')
  expect(lines.slice(1, -1).toSorted()).toEqual([
    'Not moved on: counter "limited" in "shop": Limit reached: 5 plus 50 is above the maximum of 20. Nothing was changed.',
    'Not moved on: counter "stock" in "shop" has a minimum; its value is 90.',
    'Not moved on: group "" of sequence "short" in "shop": Cannot issue 50 numbers, as the last number was 5 and the sequence ends at 30. Nothing was issued.',
    'Not moved on: group "a" of sequence "exact" in "shop" is gapless; its last number is 1.',
  ])
  const repeated = await restored(after, directory, '--continue', '--advance', '50')
  expect([repeated.code, repeated.output]).toEqual([
    0,
    expect.stringContaining(
      'Moved on by 50: 0 counters, 0 sequence groups; 1 counters and 4 groups had been moved on before.\n',
    ),
  ])
  const copy = openTestNth(after)
  expect((await copy.counters.read(counter('buyers'))).value).toBe(55)
  expect((await copy.counters.read(counter('views'))).value).toBe(5)
  const state = await copy.sequences.readSequenceGroup(group('down'))
  expect(state.lastValue).toBe(1000 - 2 * 54)
  await copy.counters.define(counter('limited'), { maxValue: null })
  await copy.counters.reset(counter('limited'), 50)
  await issue(copy)
  expect(new Set(issued).size).toBe(issued.length)

  // For a database that was restored otherwise.
  const alone = await restored(after, '--advance', '100')
  expect([alone.code, alone.output]).toEqual([0, expect.stringContaining('Moved on by 100: 2 counters, ')])
  expect((await copy.counters.read(counter('buyers'))).value).toBe(156)
})

it('nth restore: restores revisions above those of the backup, though a clock was put back', {
  tags: 'slow',
}, async () => {
  const before = await freshDatabase()
  const key = { namespace: 'n', name: 'c' }
  const numbered = { namespace: 'n', sequence: 's', group: 'g' }
  const revisionsIn = async (target: Target) => {
    const { counters, sequences } = openTestNth(target)
    const states = [await counters.read(key), await sequences.readSequenceGroup(numbered)]
    const unwritten = [
      await counters.read({ ...key, name: 'x' }),
      await sequences.readSequenceGroup({ ...numbered, sequence: 'x' }),
    ]
    return [...states, ...unwritten].map(({ revision }) => revision)
  }
  const expectAbove = (after: number[], limit: number) => {
    for (const revision of after) expect(revision).toBeGreaterThanOrEqual(limit)
    expect(after[0]).toBeGreaterThan(limit)
    expect(after[1]).toBeGreaterThan(limit)
  }
  const nth = openTestNth(before)
  await nth.counters.incrementBy(key, 1)
  await nth.sequences.define({ namespace: 'n', name: 's' }, { step: 2 })
  await nth.sequences.next(numbered, 1)
  const usual = await backedUp(before)
  const path = join(usual, 'nth.jsonl')
  const [header = '', ...lines] = (await readFile(path, 'utf8')).split('\n')
  // Earlier versions read it.
  expect(Object.keys(JSON.parse(header))).toEqual(['type', 'formatVersion', 'version', 'at'])

  // The clock of that server was ahead of this one.
  const at = new Date(Date.now() + 2 * DAY_MS)
  await writeFile(path, [JSON.stringify({ ...JSON.parse(header), at }), ...lines].join('\n'))
  const elsewhere = await freshDatabase()
  expect((await restored(elsewhere, usual)).code).toBe(0)
  expectAbove(await revisionsIn(elsewhere), (at.getTime() - Date.UTC(2020, 0)) * 1000)

  for (const table of ['counter_value', 'sequence_group', 'revision_mark']) {
    await query(before, `update ${table} set revision = revision + ${2 * MICROSECONDS_A_DAY}`)
    const after = await freshDatabase()
    expect((await restored(after, await backedUp(before))).code).toBe(0)
    expectAbove(await revisionsIn(after), Math.max(...(await revisionsIn(before))))
  }
})

it('nth restore: restores only into an empty database that nobody uses, unless --continue is given', {
  tags: 'slow',
}, async () => {
  const before = await freshDatabase()
  const { counters } = openTestNth(before)
  await counters.incrementBy({ namespace: 'default', name: 'a' }, 3)
  const directory = await backedUp(before)
  const inUse = await restored(before, directory)
  expect([inUse.code, inUse.errors]).toEqual([
    1,
    expect.stringMatching(/^The database \w+ is in use, by \d+ other sessions\. Stop Nth/),
  ])

  const after = await freshDatabase()
  await query(
    after,
    "insert into api_key (hash, prefix, label, grants, created_at) values (repeat('a', 32), 'p', 'l', '[]', now())",
  )
  const filled = await restored(after, directory)
  expect([filled.code, filled.errors]).toEqual([
    1,
    expect.stringMatching(/^The database \w+ is not empty\. Restore into a new one/),
  ])
  expect(await query(after, 'select count(*) as count from counter')).toEqual([{ count: 0 }])
  expect((await restored(after, directory, '--continue')).code).toBe(0)

  const again = await runCommand(before, ['backup', directory])
  expect([again.code, again.errors]).toEqual([
    1,
    `The directory ${directory} is not empty. Give each backup a directory of its own.\n`,
  ])
})

it.each<[string, string[], string]>([
  ['backup', [], 'Give the directory of the backup; see --help.'],
  ['backup', ['a', 'b'], 'Unexpected argument "b".'],
  ['restore', [], 'Give the directory of a backup, or the file of an export; see --help.'],
  ['restore', ['a', 'b'], 'Unexpected argument "b".'],
  ...['/nowhere', '/nowhere/', 'nowhere.jsonl'].map((path): [string, string[], string] => [
    'restore',
    [path],
    `There is no file ${path}.`,
  ]),
  ['restore', ['/proc/self'], 'There is no file /proc/self/nth.jsonl.'],
  ...['0', '-1', '1.5', 'many', '1000001', ''].map((text): [string, string[], string] => [
    'restore',
    [`--advance=${text}`],
    `--advance must be a whole number from 1 to 1000000; it is "${text}".`,
  ]),
])('nth %s: says what is wrong with %j', async (command, args, message) => {
  expect(await failureOf(command === 'backup' ? runBackup : runRestore, args)).toBe(message)
})

/** Why the file of a backup is refused. */
async function refusalOf(text: string): Promise<string> {
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'nth.jsonl'), text)
  return (await failureOf(runRestore, [directory])).replace(join(directory, 'nth.jsonl'), 'file')
}

it.each(['', 'name,value\na,1\n', '{"type":"counter"}\n'])(
  'nth restore: says that a file is not that of an export: %j',
  async (text) => {
    expect(await refusalOf(text)).toBe('file: Line 1 is not the first line of an export of Nth.')
  },
)

const TIME = '2026-11-20T00:00:00.000Z'
const keyLine = (fields: object = {}) => ({
  type: 'apiKey',
  id: 7,
  hash: 'a'.repeat(64),
  prefix: 'nth_aaaaaaaa',
  label: 'x',
  grants: [{ scopes: ['READ'], namespace: null, names: null, prefix: '', maxDelta: 1, maxCount: 1 }],
  origins: null,
  perMinute: null,
  createdAt: TIME,
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...fields,
})
const idempotencyLine = (results: unknown) => ({
  type: 'idempotencyKey',
  hash: 'b'.repeat(64),
  fingerprint: 'c'.repeat(64),
  appliedAt: TIME,
  claimedAt: TIME,
  results,
})

it.each([
  [keyLine({ id: 2 ** 53 - 1 }), 'id'],
  [keyLine({ id: 0 }), 'id'],
  [keyLine({ grants: [] }), 'grants'],
  [keyLine({ grants: Array(101).fill(keyLine().grants[0]) }), 'grants'],
  [keyLine({ perMinute: 2 ** 40 }), 'perMinute'],
  [keyLine({ hash: 'x' }), 'hash'],
  ...[[null], ['x'], [{ value: 'evil' }], [2 ** 53], [[1]], [{ kind: 'evil' }]].map(
    (results): [Line, string] => [idempotencyLine(results), 'results'],
  ),
])('nth restore: refuses a line of a key that is wrong, and names it: %#', async (line, field) => {
  expect(await refusalOf(fileWith([line]))).toMatch(new RegExp(`^Line 2: ${field}`, 'm'))
})
