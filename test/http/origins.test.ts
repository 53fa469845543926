import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { Origins } from '../../src/http/origins.ts'

const SHOP = 'https://shop.example'
const NTH = 'https://nth.example'

const requestWith = (headers: IncomingHttpHeaders) => ({ headers }) as IncomingMessage

/** Servers that others can reach: with NTH_PUBLIC_URL, and without. */
const named = new Origins({ allowedOrigins: [], publicOrigin: NTH, onLoopback: false })
const unnamed = new Origins({ allowedOrigins: [], publicOrigin: undefined, onLoopback: false })
const onLoopback = new Origins({ allowedOrigins: [], publicOrigin: undefined, onLoopback: true })

it.each([
  ['with NTH_PUBLIC_URL', named],
  ['without', unnamed],
])('does not treat a page as its own if another host name leads to it, %s', (_, own) => {
  const isAllowed = (headers: IncomingHttpHeaders) =>
    own.pageFault(requestWith(headers), [SHOP]) === undefined
  const host = 'evil.example'
  expect(isAllowed({ host, origin: 'http://evil.example' })).toBe(false)
  expect(isAllowed({ host, 'sec-fetch-site': 'same-origin' })).toBe(false)
  expect(isAllowed({ host, referer: 'http://evil.example/' })).toBe(false)
  expect(isAllowed({ host, origin: SHOP })).toBe(true)
  expect(isAllowed({ host, referer: `${SHOP}/book` })).toBe(true)
  // A shop whose server passes some of its addresses on.
  expect(isAllowed({ host: 'shop.example', 'sec-fetch-site': 'same-origin' })).toBe(true)
})

it('knows its own pages by NTH_PUBLIC_URL, or else by the Host header', () => {
  const own = (origin: string, host: string, origins: Origins) =>
    origins.isOwnPage(origin, requestWith({ host }))
  expect([own(NTH, 'x', named), own('http://10.0.0.5:4000', '10.0.0.5:4000', named)]).toEqual([true, false])
  expect([own('http://10.0.0.5:4000', '10.0.0.5:4000', unnamed), own(SHOP, 'x', unnamed)]).toEqual([
    true,
    false,
  ])
  // There the Host header was checked.
  expect(onLoopback.isOwnPage('http://localhost:4000', requestWith({ host: 'localhost:4000' }))).toBe(true)
})

it('lets its own pages use secrets, which other pages do not have', () => {
  const request = requestWith({ host: '10.0.0.5:4000', origin: 'http://10.0.0.5:4000' })
  expect(unnamed.pageFault(request, null)).toBeUndefined()
  expect(named.pageFault(request, null)?.code).toBe('FORBIDDEN')
  expect(unnamed.pageFault(request, [SHOP])?.message).toContain('set NTH_PUBLIC_URL')
  expect(named.pageFault(requestWith({ host: 'x', origin: NTH }), [SHOP])).toBeUndefined()
})
