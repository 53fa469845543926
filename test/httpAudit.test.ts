import { auditServer } from 'graphql-http'
import { expect, it } from 'vitest'
import { startService } from './support/service.ts'

/** Sends what is JSON with a parameter that means nothing: it goes through Yoga as it is. */
const throughYoga: typeof fetch = (input, { headers, ...init } = {}) => {
  const sent = new Headers(headers)
  if (sent.get('content-type')?.startsWith('application/json')) {
    sent.set('content-type', 'application/json; way=full')
  }
  return fetch(input, { ...init, headers: sent })
}

it.each([
  ['by the shortest way', fetch],
  ['through Yoga', throughYoga],
])('passes the whole audit of graphql-http %s', async (_, fetchFn) => {
  const { url } = await startService()
  const results = await auditServer({ url: `${url}/graphql`, fetchFn })
  const failures = results.filter(({ status }) => status !== 'ok')
  expect(failures.map(({ name, ...result }) => [name, 'reason' in result && result.reason])).toEqual([])
  expect(results.length).toBeGreaterThan(50)
})
