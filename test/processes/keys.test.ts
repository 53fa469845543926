import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { dataDirectory, spawnNth, startNth } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const BUY = 'mutation { increment(namespace: "booksales", name: "Bulldozer") { value } }'

interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Runs the command as `npm run keys` does. */
function runKeys(environment: Record<string, string>, ...args: string[]): Promise<Ended> {
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NTH_DATABASE_MEMORY_MB: '128',
    ...environment,
  }
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['dist/bundle/main.js', 'keys', ...args],
      { cwd: ROOT, env },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    )
  })
}

const CREATE = ['create', '--label', 'shop', '--allow', 'ADD', '--namespace', 'booksales']

it('creates, lists and revokes keys while Nth runs, and while it does not', async () => {
  const directory = await dataDirectory()
  const environment = { NTH_DATA_DIR: directory }
  const stopped = await runKeys(environment, ...CREATE)
  expect(stopped.code).toBe(0)
  const first = stopped.stdout.trim()
  expect(first).toMatch(/^nth_[0-9a-f]{40}$/)
  expect(await readdir(directory)).not.toContain('nth.lock')

  const nth = await startNth({ ...environment, NTH_ADMIN_KEY: ADMIN_KEY })
  const second = (
    await runKeys(environment, ...CREATE, '--max-delta', '5', '--origin', 'https://shop.example')
  ).stdout.trim()
  expect((await as(nth, first).send(BUY)).data).toEqual({ increment: { value: 1 } })
  const headers = { origin: 'https://shop.example' }
  expect((await as(nth, second).send(BUY, {}, headers)).data).toEqual({ increment: { value: 2 } })
  const third = (await runKeys(environment, ...CREATE, '--once-only')).stdout.trim()
  const { stdout } = await runKeys(environment, 'list')
  expect(stdout.split('\n')).toEqual([
    `${first.slice(0, 12)}… (shop): ADD on all names in booksales; for servers`,
    `${second.slice(0, 12)}… (shop): ADD on all names in booksales; for pages of https://shop.example`,
    `${third.slice(0, 12)}… (shop): ADD on all names in booksales, once per subject; for servers`,
    '',
  ])
  const revoked = await runKeys(environment, 'revoke', first.slice(0, 12))
  expect(revoked.stdout).toContain(`Revoked ${first.slice(0, 12)}…`)
  await expect.poll(async () => (await as(nth, first).send(BUY)).status).toBe(401)
  expect((await as(nth, second).send(BUY, {}, headers)).status).toBe(200)
})

it('creates a key in a database of its own, whose tables it makes', async () => {
  const target = await freshDatabase({ migrated: false })
  const { code } = await runKeys({ DATABASE_URL: urlOf(target) }, ...CREATE)
  expect(code).toBe(0)
  expect(await query(target, 'select count(*) as count from api_key')).toEqual([{ count: 1 }])
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
])('says what is wrong with %j', { tags: 'slow' }, async (args, message) => {
  const { code, stderr, stdout } = await runKeys({ DATABASE_URL: urlOf(await freshDatabase()) }, ...args)
  expect([code, stderr, stdout]).toEqual([1, `${message}\n`, ''])
})

it('does not report a missing key when two keys have the same prefix', async () => {
  const target = await freshDatabase()
  const key = (hash: string) =>
    `insert into api_key (hash, prefix, label, grants, created_at) values (repeat('${hash}', 32), 'nth_aaaaaaaa', 'l', '[]', now())`
  await query(target, key('a'), key('b'))
  const { code, stderr } = await runKeys({ DATABASE_URL: urlOf(target) }, 'revoke', 'nth_aaaaaaaa')
  expect([code, stderr]).toEqual([
    1,
    'Several API keys begin with nth_aaaaaaaa; revoke the right one in the console.\n',
  ])
})

it('shows its usage', async () => {
  for (const args of [[], ['--help']]) expect((await runKeys({}, ...args)).stdout).toMatch(/^Usage: nth keys/)
})

it('says at the start that it is open, and is not with an administrator’s key', {
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

it.each([
  [
    { HOST: '0.0.0.0' },
    /^HOST is 0\.0\.0\.0, where other machines can reach this server: set NTH_ADMIN_KEY .* or set NTH_ANONYMOUS/,
  ],
  [{ NTH_ADMIN_KEY: 'short' }, /^NTH_ADMIN_KEY must be at least 32 printable ASCII characters/],
  [{ NTH_ANONYMOUS: 'READ,EAT' }, /^NTH_ANONYMOUS has the unknown scope "EAT"; supported: READ, /],
  [{ NTH_TRUST_PROXY: '10.0.0.0/99' }, /^NTH_TRUST_PROXY has "10\.0\.0\.0\/99", which is not a network/],
  [
    { NTH_JWT_ISSUER: 'https://issuer.example' },
    /^NTH_JWT_AUDIENCE is missing: set all of NTH_JWT_ISSUER, NTH_JWT_AUDIENCE, NTH_JWT_JWKS_URL, or none/,
  ],
  [{ NTH_PUBLIC_URL: 'nth.example' }, /^NTH_PUBLIC_URL must be a URL/],
])('does not start with %j, and says why', async (environment, message) => {
  const nth = spawnNth(environment)
  expect(await nth.exited).toBe(1)
  expect(nth.errors()).toMatch(message)
})
