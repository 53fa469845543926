import { expect, it } from 'vitest'
import { anonymous, EVERYTHING, type Grant, grantOf, isAllowed, SCOPES } from '../../src/rules/rights.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { turnedClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'

const OPTIONS = { label: 'x', origins: null, perMinute: null, documents: null, expiresAt: null }

it('API keys: stores a grant with onceOnly so that versions that do not know it refuse what it allows', async () => {
  const target = await freshDatabase()
  const { apiKeys } = openTestNth(target)
  const grants: Grant[] = [
    { ...grantOf('ADD', 'READ'), namespace: 'shop', onceOnly: true },
    { ...grantOf('READ'), names: ['a'] },
  ]
  const { key } = await apiKeys.create({ ...OPTIONS, grants }, 'ADMIN')
  expect(key.grants).toEqual(grants)
  const [row] = await query(target, 'select grants from api_key')
  // 0.2.0 reads nothing but JSON, and goes by the scopes in it.
  const before = JSON.parse(String(row?.grants))
  for (const scope of SCOPES) expect(isAllowed(anonymous([before[0]]), scope)).toBe(false)
  expect(before[1]).toEqual({
    scopes: ['READ'],
    namespace: null,
    names: ['a'],
    prefix: '',
    maxDelta: 1,
    maxCount: 1,
  })
})

it('API keys: reads keys of versions without onceOnly as before', async () => {
  const target = await freshDatabase()
  const { apiKeys } = openTestNth(target)
  await query(
    target,
    `insert into api_key (hash, prefix, label, grants, created_at)
     values (repeat('a', 32), 'p', 'l',
             '[{"scopes":["READ","ADD","NUMBER","WRITE","DEFINE","ADMIN"],"namespace":null,"names":null,"prefix":"","maxDelta":1,"maxCount":1}]',
             now())`,
  )
  const [key] = await apiKeys.list({ limit: 1, fromEnd: false })
  const scopes = EVERYTHING.scopes.filter((scope) => scope !== 'HOLD')
  expect(key?.grants).toEqual([{ ...EVERYTHING, scopes }])
})

it('API keys: are valid until the very instant of their expiry', async () => {
  const clock = turnedClock('2027-02-28T12:00:00.250Z')
  const { apiKeys } = openTestNth(await freshDatabase(), clock)
  const expiresAt = new Date(clock.at + 60_000)
  const { key } = await apiKeys.create({ ...OPTIONS, grants: [grantOf('READ')], expiresAt }, 'ADMIN')
  clock.at = expiresAt.getTime() - 1
  expect(await apiKeys.isValid(key)).toBe(true)
  clock.at += 1
  expect(await apiKeys.isValid(key)).toBe(false)
})
