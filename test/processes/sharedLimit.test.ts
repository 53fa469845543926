// @module-tag slow
import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'

it('shares what an address may change among the workers of a server', async () => {
  const nth = await startNth({
    DATABASE_URL: urlOf(await freshDatabase()),
    WORKERS: '2',
    NTH_ADMIN_KEY: 'a-secret-of-the-administrator-0123456789',
    NTH_ANONYMOUS: 'ADD',
    NTH_ANONYMOUS_PER_MINUTE: '20',
  })
  // Each on a connection of its own, so that workers take turns.
  const add = async () => {
    const response = await fetch(`${nth.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close' },
      body: '{"query":"mutation { increment(name: \\"c\\") { value } }"}',
    })
    await response.text()
    return {
      status: response.status,
      left: Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]),
    }
  }
  const left = async () => {
    const response = await fetch(`${nth.url}/graphql?query={__typename}`, {
      headers: { connection: 'close' },
    })
    await response.text()
    return Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])
  }
  for (const _ of upTo(10)) expect((await add()).status).toBe(200)
  // Both know of all ten: what was refilled meanwhile is on top, one in three seconds.
  await expect
    .poll(async () => {
      const both = [await left(), await left(), await left(), await left()]
      return Math.max(...both) - Math.min(...both)
    })
    .toBeLessThanOrEqual(1)
  const began = performance.now()
  const known = await left()
  expect(known).toBeGreaterThanOrEqual(10)
  let allowed = 0
  // One by one, with a moment in between for what the other worker has allowed.
  for (let refused = 0; refused < 4; ) {
    const { status } = await add()
    if (status === 200) allowed += 1
    else refused += 1
    await expect.poll(async () => Math.abs((await left()) - (await left()))).toBeLessThanOrEqual(1)
  }
  const refilled = Math.ceil(((performance.now() - began) / 60_000) * 20) + 1
  expect(allowed).toBeLessThanOrEqual(known + refilled)
  expect(allowed).toBeGreaterThanOrEqual(known - 2)
})
