import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { Origins } from '../../src/http/origins.ts'
import { upTo } from '../support/client/client.ts'
import { startService } from '../support/server/service.ts'

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
])('origins: exclude a page to which another host name leads, %s', (_, own) => {
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

it('origins: include its own pages by NTH_PUBLIC_URL, or else by the Host header', () => {
  const own = (origin: string, host: string, origins: Origins) =>
    origins.isOwnPage(origin, requestWith({ host }))
  expect([own(NTH, 'x', named), own('http://10.0.0.5:4000', '10.0.0.5:4000', named)]).toEqual([true, false])
  expect([own('http://10.0.0.5:4000', '10.0.0.5:4000', unnamed), own(SHOP, 'x', unnamed)]).toEqual([
    true,
    false,
  ])
  // A proxy on this machine passes on the host that its client named.
  const behindProxy = new Origins({ allowedOrigins: [], publicOrigin: NTH, onLoopback: true })
  const hosts = ['nth.example', 'localhost:4000', 'evil.example']
  expect(hosts.map((host) => behindProxy.hostFault(host)?.code)).toEqual([undefined, undefined, 'FORBIDDEN'])
  // There the Host header was checked.
  expect(onLoopback.isOwnPage('http://localhost:4000', requestWith({ host: 'localhost:4000' }))).toBe(true)
})

it('origins: let its own pages use secrets, which other pages do not have', () => {
  const request = requestWith({ host: '10.0.0.5:4000', origin: 'http://10.0.0.5:4000' })
  expect(unnamed.pageFault(request, null)).toBeUndefined()
  expect(named.pageFault(request, null)?.code).toBe('FORBIDDEN')
  expect(unnamed.pageFault(request, [SHOP])?.message).toContain('set NTH_PUBLIC_URL')
  expect(named.pageFault(requestWith({ host: 'x', origin: NTH }), [SHOP])).toBeUndefined()
})

it.each([
  ['http://localhost:5173', true],
  ['http://127.0.0.1', true],
  ['http://[::1]:8080', true],
  [SHOP, true],
  ['https://localhost:5173', false],
  ['http://localhost.evil.example', false],
  ['https://evil.example', false],
  ['null', false],
])('origins: let pages of %s call, and read refusals, too: %s', async (origin, isAllowed) => {
  const { url, ask } = await startService({ allowedOrigins: [SHOP] })
  const preflight = await fetch(`${url}/graphql`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    },
  })
  const headers = { origin, 'content-type': 'application/json' }
  const call = {
    method: 'POST',
    headers,
    body: '{"query":"mutation { increment(name: \\"c\\") { value } }"}',
  }
  const responses: [path: string, status: number, init: RequestInit][] = [
    ['/graphql', 200, call],
    ['/graphql', 400, { headers }],
    ['/graphql?query={', 200, { headers }],
    ['/nope', 404, { headers }],
  ]
  const received = [preflight]
  for (const [path, status, init] of responses) {
    const response = await fetch(url + path, init)
    expect([path, response.status]).toEqual([path, isAllowed || path === '/nope' ? status : 403])
    received.push(response)
  }
  for (const { headers } of received) {
    expect(headers.get('access-control-allow-origin')).toBe(isAllowed ? origin : null)
    expect(headers.get('access-control-allow-credentials')).toBeNull()
    expect(headers.get('vary')).toContain('Origin')
  }
  expect(preflight.headers.get('access-control-allow-headers')).toBe(isAllowed ? 'content-type' : null)
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: Number(isAllowed) } })
})

it('origins: are named once in a warning when they were refused, with how to allow them, and at most twenty', async () => {
  const { url, warnings } = await startService()
  const call = (origin: string) => fetch(`${url}/graphql?query={__typename}`, { headers: { origin } })
  for (const origin of [SHOP, 'http://localhost:5173', SHOP, 'null', 'x', url]) await call(origin)
  expect(warnings).toEqual([`The origin ${SHOP} is not allowed. To allow it, add it to NTH_ALLOWED_ORIGINS.`])
  for (const index of upTo(25)) await call(`https://shop${index}.example`)
  expect(warnings).toHaveLength(20)
})
