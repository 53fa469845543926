import { auditServer } from 'graphql-http'
import { expect, it } from 'vitest'
import { startService } from '../support/server/service.ts'

it('GraphQL over HTTP: passes the whole audit of graphql-http', async () => {
  const { url } = await startService()
  const results = await auditServer({ url: `${url}/graphql`, fetchFn: fetch })
  const failures = results.filter(({ status }) => status !== 'ok')
  expect(failures.map(({ name, ...result }) => [name, 'reason' in result && result.reason])).toEqual([])
  expect(results.length).toBeGreaterThan(50)
})
