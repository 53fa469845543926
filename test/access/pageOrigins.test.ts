import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { isOwnPage, pageFault } from '../../src/http/access/pageOrigins.ts'

const SHOP = 'https://shop.example'
const NTH = 'https://nth.example'

const requestWith = (headers: IncomingHttpHeaders) => ({ headers }) as IncomingMessage

/** Servers that others can reach: with NTH_PUBLIC_URL, and without. */
const named = { publicOrigin: NTH, isHostChecked: false }
const unnamed = { publicOrigin: undefined, isHostChecked: false }
const onLoopback = { publicOrigin: undefined, isHostChecked: true }

it.each([named, unnamed])('takes no page for its own that leads another name to it: %j', (own) => {
  const isAllowed = (headers: IncomingHttpHeaders) =>
    pageFault(requestWith(headers), [SHOP], own) === undefined
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
  const own = (origin: string, host: string, pages: typeof named | typeof unnamed) =>
    isOwnPage(origin, requestWith({ host }), pages)
  expect([own(NTH, 'x', named), own('http://10.0.0.5:4000', '10.0.0.5:4000', named)]).toEqual([true, false])
  expect([own('http://10.0.0.5:4000', '10.0.0.5:4000', unnamed), own(SHOP, 'x', unnamed)]).toEqual([
    true,
    false,
  ])
  // There the Host header was checked.
  expect(isOwnPage('http://localhost:4000', requestWith({ host: 'localhost:4000' }), onLoopback)).toBe(true)
})

it('lets its own pages use secrets, which other pages do not have', () => {
  const request = requestWith({ host: '10.0.0.5:4000', origin: 'http://10.0.0.5:4000' })
  expect(pageFault(request, null, unnamed)).toBeUndefined()
  expect(pageFault(request, null, named)?.code).toBe('FORBIDDEN')
  expect(pageFault(request, [SHOP], unnamed)?.message).toContain('set NTH_PUBLIC_URL')
  expect(pageFault(requestWith({ host: 'x', origin: NTH }), [SHOP], named)).toBeUndefined()
})
