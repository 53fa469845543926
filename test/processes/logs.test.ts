// @module-tag slow
import { expect, it } from 'vitest'
import { ADMIN_KEY, as } from '../support/client/keys.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'

const SECRET = 'a value that is secret'

async function started(more: Record<string, string> = {}) {
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    NTH_ADMIN_KEY: ADMIN_KEY,
    ...more,
  })
  const lines = () =>
    nth
      .errors()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
  return { nth, admin: as(nth, ADMIN_KEY), lines }
}

it('logs a line for each request that failed, without what it was sent', { tags: 'quick' }, async () => {
  const { nth, admin, lines } = await started()
  const query = 'query Wrong($name: String!) { counter(name: $name) { value } }'
  const headers = { 'x-request-id': 'from-the-proxy' }
  const secret = `nth_${'0'.repeat(40)}`
  const tooLong = SECRET.repeat(50)
  expect((await admin.send(query, { name: 'fine' })).errors).toBeUndefined()
  await admin.send(query, { name: tooLong }, headers)
  await as(nth, secret).send(query, { name: SECRET })
  await nth.send('{ counter(name: "fine") { value } }')
  await expect.poll(lines).toHaveLength(3)
  expect(lines()).toEqual([
    expect.objectContaining({
      level: 30,
      msg: 'Request failed',
      requestId: 'from-the-proxy',
      operation: 'query',
      operationName: 'Wrong',
      code: 'BAD_USER_INPUT',
      key: 'ADMIN',
    }),
    expect.objectContaining({ code: 'UNAUTHENTICATED', requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) }),
    expect.objectContaining({ code: 'UNAUTHENTICATED', key: 'ANONYMOUS' }),
  ])
  expect(nth.output()).not.toContain(SECRET)
  expect(nth.output()).not.toContain(ADMIN_KEY)
  expect(nth.output()).not.toContain(secret)
})

it('returns the ID under which a failure was logged', async () => {
  const { nth, lines } = await started()
  const ask = async (init: RequestInit) =>
    (await fetch(`${nth.url}/graphql`, init)).headers.get('x-request-id')
  const json = { 'content-type': 'application/json' }
  const ids = [
    await ask({ method: 'POST', headers: json, body: '{"query":"{ viewer { kind } }"}' }),
    await ask({ method: 'POST', headers: json, body: '{"query":"{ counter(name: \\"a\\") { value } }"}' }),
    await ask({ method: 'POST', headers: json, body: '{' }),
    await ask({ method: 'POST', headers: { ...json, authorization: 'Bearer nth_x' }, body: '{}' }),
    await ask({ method: 'POST', headers: { ...json, 'x-request-id': 'a\tb' }, body: '{}' }),
  ]
  expect(ids[0]).toBeNull()
  await expect.poll(lines).toHaveLength(4)
  expect(lines().map(({ requestId }) => requestId)).toEqual(ids.slice(1))
  expect(ids[4]).toMatch(/^[0-9a-f-]{36}$/)
})

it('logs at the configured level', async () => {
  const all = await started({ NTH_LOG_LEVEL: 'debug' })
  await all.admin.send('query Fine { counter(name: "a") { value } }')
  await expect
    .poll(all.lines)
    .toEqual([
      expect.objectContaining({ level: 20, msg: 'Request answered', operationName: 'Fine', key: 'ADMIN' }),
    ])
  const few = await started({ NTH_LOG_LEVEL: 'warn' })
  await few.nth.send('{ wrong }')
  await few.nth.send('{ counter(name: "a") { value } }')
  expect(few.lines()).toEqual([])
})
