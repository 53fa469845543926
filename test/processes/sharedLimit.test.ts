// @module-tag slow
import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'

it('NTH_ANONYMOUS_PER_MINUTE: shares what an address may change among the workers of a server', async () => {
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
    return response.status
  }
  /** How long until all that was allowed is refilled, as workers say in turn, in seconds: three for each. */
  const refills = async () => {
    const seconds: number[] = []
    for (const _ of upTo(4)) {
      const response = await fetch(`${nth.url}/graphql?query={__typename}`, {
        headers: { connection: 'close' },
      })
      await response.text()
      seconds.push(Number(/t=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]))
    }
    return seconds
  }
  const sameForAll = () =>
    expect
      .poll(async () => {
        const seconds = await refills()
        return Math.max(...seconds) - Math.min(...seconds)
      })
      .toBeLessThan(3)
  const began = performance.now()
  let allowed = 0
  for (let refused = 0; refused < 4; ) {
    if ((await add()) === 200) allowed += 1
    else refused += 1
    await sameForAll()
  }
  const refilled = Math.ceil((performance.now() - began) / 3000)
  // Without sharing it would be twice twenty; a worker may allow a few before it knows of the other's.
  expect(allowed).toBeGreaterThanOrEqual(20)
  expect(allowed).toBeLessThanOrEqual(20 + refilled + 5)
})
