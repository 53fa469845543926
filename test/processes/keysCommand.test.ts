import { readdir } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { run } from '../../src/commands/keys.ts'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { dataDirectory, startNth } from '../support/server/nthProcess.ts'
import { failureOf, runNth } from '../support/server/transfer.ts'

const HEADERS = { origin: 'https://shop.example' }
const CREATE = ['create', '--label', 'shop', '--allow', 'ADD', '--namespace', 'booksales']
const BUY =
  'mutation($subject: String) { increment(namespace: "booksales", name: "Bulldozer", subject: $subject) { value } }'

it('nth keys: creates, lists and revokes keys while Nth runs, and while it does not', async () => {
  const directory = await dataDirectory()
  const environment = { NTH_DATA_DIR: directory }
  const keys = async (...args: string[]) => (await runNth(['keys', ...args], environment)).output
  const first = (await keys(...CREATE)).trim()
  expect(first).toMatch(/^nth_[0-9a-f]{40}$/)
  expect(await readdir(directory)).not.toContain('nth.lock')

  const nth = await startNth({ ...environment, NTH_ADMIN_KEY: ADMIN_KEY })
  const second = (await keys(...CREATE, '--once-only', '--origin', HEADERS.origin)).trim()
  const counted = (value: number) => ({ data: { increment: { value } } })
  expect(await as(nth, first).send(BUY)).toMatchObject(counted(1))
  const bySubject = () => as(nth, second).send(BUY, { subject: 'a-reader-of-this-page' }, HEADERS)
  expect(await bySubject()).toMatchObject(counted(2))
  expect((await keys('list')).split('\n')).toEqual([
    `${first.slice(0, 12)}… (shop): ADD on all names in booksales; for servers`,
    `${second.slice(0, 12)}… (shop): ADD on all names in booksales, once per subject; for pages of ${HEADERS.origin}`,
    '',
  ])
  expect(await keys('revoke', first.slice(0, 12))).toContain(`Revoked ${first.slice(0, 12)}…`)
  await expect.poll(async () => (await as(nth, first).send(BUY)).status).toBe(401)
  expect(await bySubject()).toMatchObject(counted(2))
})

it.each([
  [['create', '--allow', 'ADD'], '--label is required.'],
  [['create', '--label', 'x'], '--allow is required.'],
  [
    ['create', '--label', 'x', '--allow', 'EAT'],
    '--allow has the unknown scope "EAT"; supported: READ, ADD, NUMBER, HOLD, WRITE, DEFINE, ADMIN.',
  ],
  [[...CREATE, '--max-delta', '0'], '--max-delta must be a whole number from 1; it is "0".'],
  [
    [...CREATE, '--origin', 'shop.example'],
    '--origin must be an origin such as https://shop.example, without a path, or *.',
  ],
  [[...CREATE, '--expires', '2020-01-01'], '--expires must be a time in the future, before the year 2100.'],
  [[...CREATE, '--expires', '2100-01-01'], '--expires must be a time in the future, before the year 2100.'],
  [
    [...CREATE, '--per-minute', '1000001'],
    '--per-minute must be a whole number from 1 to 1000000; it is "1000001".',
  ],
  [[...CREATE, '--name', 'a', '--prefix', 'b'], '--name cannot be combined with "prefix".'],
  [
    ['create', '--label', 'x', '--allow', 'WRITE', '--once-only'],
    '--once-only cannot be combined with WRITE or ADMIN, which allow any change.',
  ],
  [['revoke', 'nth_00000000'], 'No API key begins with nth_00000000; see nth keys list.'],
  [['eat'], 'Unknown command "eat"; see --help.'],
])('nth keys: says what is wrong with %j', async (args, message) => {
  // It makes the tables that a database lacks.
  expect(await failureOf(run, args, await freshDatabase({ migrated: false }))).toBe(message)
})

it('nth keys: does not report a missing key when two keys have the same prefix', async () => {
  const target = await freshDatabase()
  const key = (hash: string) =>
    `insert into api_key (hash, prefix, label, grants, created_at) values (repeat('${hash}', 32), 'nth_aaaaaaaa', 'l', '[]', now())`
  await query(target, key('a'), key('b'))
  expect(await failureOf(run, ['revoke', 'nth_aaaaaaaa'], target)).toBe(
    'Several API keys begin with nth_aaaaaaaa; revoke the right one in the console.',
  )
})

it('nth start: says that it is open, and is not with an administrator’s key', {
  tags: 'slow',
}, async () => {
  const url = urlOf(await freshDatabase())
  const open = await startNth({ DATABASE_URL: url })
  expect(open.output()).toContain(
    'Nth is open to everyone on this machine. Before others can reach it, set NTH_ADMIN_KEY',
  )
  const protectedOne = await startNth({ DATABASE_URL: url, NTH_ADMIN_KEY: ADMIN_KEY, WORKERS: '2' })
  expect(protectedOne.output()).not.toContain('open to everyone')
  expect((await protectedOne.post(JSON.stringify({ query: BUY }))).body.errors?.[0]?.extensions.code).toBe(
    'UNAUTHENTICATED',
  )
  expect((await as(protectedOne, ADMIN_KEY).send(BUY)).data).toEqual({ increment: { value: 1 } })
})
