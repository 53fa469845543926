import { expect, it } from 'vitest'
import { startFront } from '../support/server/front.ts'

it('serves the page of a book that may be there, while the database does not answer', async () => {
  const { url } = await startFront({
    around: ({ counters, ...others }) => ({
      ...others,
      counters: { ...counters, read: () => new Promise(() => undefined) },
    }),
  })
  const page = await fetch(`${url}/book?title=Nobody%20knows`, { headers: { accept: 'text/html' } })
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
})
