import { EventEmitter } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { Clients, clientAddress, clientOf, networksOf } from '../../src/http/clients.ts'
import { openConnections } from '../../src/http/connections.ts'
import { SILENT } from '../../src/operations/log.ts'

function addressOf(remoteAddress: string, forwarded: string | undefined, trusted: string[]): string {
  const request = { socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }
  return clientAddress(request as unknown as IncomingMessage, networksOf(trusted))
}

it('addresses: are those of connections, unless a trusted proxy sends another', () => {
  const proxies = ['10.0.0.0/8', '::1']
  expect(addressOf('1.2.3.4', '5.6.7.8', [])).toBe('1.2.3.4')
  expect(addressOf('1.2.3.4', '5.6.7.8', proxies)).toBe('1.2.3.4')
  expect(addressOf('10.0.0.1', '5.6.7.8', proxies)).toBe('5.6.7.8')
  expect(addressOf('10.0.0.1', undefined, proxies)).toBe('10.0.0.1')
  expect(addressOf('::ffff:10.0.0.1', '5.6.7.8', proxies)).toBe('5.6.7.8')
  expect(addressOf('::1', '2001:db8::1', proxies)).toBe('2001:db8::1')
})

it('addresses: come from the last untrusted hop, and only if they are addresses', () => {
  const proxies = ['10.0.0.0/8']
  expect(addressOf('10.0.0.1', '9.9.9.9, 5.6.7.8, 10.0.0.2', proxies)).toBe('5.6.7.8')
  expect(addressOf('10.0.0.1', '10.9.9.9, 10.0.0.2', proxies)).toBe('10.9.9.9')
  expect(addressOf('10.0.0.1', '5.6.7.8, unknown', proxies)).toBe('10.0.0.1')
  expect(addressOf('10.0.0.1', '5.6.7.8:4711', proxies)).toBe('5.6.7.8')
  expect(addressOf('10.0.0.1', '"[2001:db8::1]"', proxies)).toBe('10.0.0.1')
  expect(addressOf('10.0.0.1', '[2001:db8::1]:4711', proxies)).toBe('2001:db8::1')
  expect(addressOf('10.0.0.1', '[2001:db8::1]', proxies)).toBe('2001:db8::1')
  expect(addressOf('10.0.0.1', ', ,', proxies)).toBe('10.0.0.1')
})

it('addresses: of a /64 network of IPv6 count as one client', () => {
  expect(clientOf('1.2.3.4')).toBe('1.2.3.4')
  expect(clientOf('::ffff:1.2.3.4')).toBe('1.2.3.4')
  expect(clientOf('::ffff:808:FF04')).toBe('8.8.255.4')
  expect(clientOf('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2')
  expect(clientOf('2001:DB8:1:2::6')).toBe('2001:db8:1:2')
  expect(clientOf('2001:db8::6')).toBe('2001:db8:0:0')
  expect(clientOf('2001:0db8:0001::')).toBe('2001:db8:1:0')
  expect(clientOf('::1')).toBe('0:0:0:0')
  expect(clientOf('fe80::1%eth0')).toBe('fe80:0:0:0')
})

it.each(['10.0.0.0/33', '10.0.0/8', 'proxy', '::1/129', '10.0.0.0/8/9', '10.0.0.0/x'])(
  'NTH_TRUST_PROXY: may not have the network %s',
  (block) => {
    expect(() => readConfig({ NTH_TRUST_PROXY: `10.0.0.0/8, ${block}` })).toThrow(
      `NTH_TRUST_PROXY has "${block}", which is not a network such as 10.0.0.0/8.`,
    )
  },
)

function socketFrom(remoteAddress: string) {
  // What the limit uses of one.
  return Object.assign(new EventEmitter(), { remoteAddress }) as unknown as Socket
}

it('connections: are counted for each address, except for proxies and this machine', () => {
  const clients = new Clients(['10.0.0.0/8'], 2)
  const refused = (address: string) => clients.refuse(socketFrom(address))?.code
  const first = socketFrom('1.1.1.1')
  expect(clients.refuse(first)).toBeUndefined()
  expect(refused('1.1.1.1')).toBeUndefined()
  expect(refused('1.1.1.1')).toBe('RATE_LIMITED')
  expect(refused('::ffff:1.1.1.1')).toBe('RATE_LIMITED')
  expect(refused('2.2.2.2')).toBeUndefined()
  for (const exempt of ['10.1.1.1', '127.0.0.1', '::1', '::ffff:127.0.0.1']) {
    expect([1, 2, 3, 4].map(() => refused(exempt))).toEqual([undefined, undefined, undefined, undefined])
  }
  first.emit('close')
  expect(refused('1.1.1.1')).toBeUndefined()
  expect(refused('1.1.1.1')).toBe('RATE_LIMITED')
  // A client can choose any address of its network.
  expect(['2001:db8::1', '2001:db8::2', '2001:db8::3'].map(refused)).toEqual([
    undefined,
    undefined,
    'RATE_LIMITED',
  ])
})

it('connections: one too many is answered, and none of its requests executed', async () => {
  const server = createServer()
  let handled = 0
  class FromOneAddress extends Clients {
    override refuse() {
      return super.refuse(socketFrom('1.1.1.1'))
    }
  }
  openConnections(server, {
    maxBytes: 1e6,
    maxUnreadBytes: 1e6,
    stallMs: 1000,
    clients: new FromOneAddress([], 0),
    handle: () => {
      handled += 1
    },
    notices: { ...SILENT, fault: console.error },
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  expect([response.status, response.statusText]).toEqual([429, 'Too Many Requests'])
  expect(['retry-after', 'cache-control'].map((name) => response.headers.get(name))).toEqual([
    '1',
    'no-store',
  ])
  const extensions = { code: 'RATE_LIMITED', limit: 0, retryAfterMs: 1000, retryable: true }
  expect(await response.json()).toMatchObject({ errors: [{ extensions }] })
  expect(handled).toBe(0)
})
