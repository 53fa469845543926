import type { IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { clientAddress, clientOf, networksOf } from '../../src/http/clients.ts'

function addressOf(remoteAddress: string, forwarded: string | undefined, trusted: string[]): string {
  const request = { socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }
  return clientAddress(request as unknown as IncomingMessage, networksOf(trusted))
}

it('takes the address of the connection, unless a trusted proxy sends another', () => {
  const proxies = ['10.0.0.0/8', '::1']
  expect(addressOf('1.2.3.4', '5.6.7.8', [])).toBe('1.2.3.4')
  expect(addressOf('1.2.3.4', '5.6.7.8', proxies)).toBe('1.2.3.4')
  expect(addressOf('10.0.0.1', '5.6.7.8', proxies)).toBe('5.6.7.8')
  expect(addressOf('10.0.0.1', undefined, proxies)).toBe('10.0.0.1')
  expect(addressOf('::ffff:10.0.0.1', '5.6.7.8', proxies)).toBe('5.6.7.8')
  expect(addressOf('::1', '2001:db8::1', proxies)).toBe('2001:db8::1')
})

it('believes no hop before the last untrusted one, nor what is no address', () => {
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

it('counts the addresses of a /64 network of IPv6 as one client', () => {
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
  'rejects the network %s',
  (block) => {
    expect(() => readConfig({ NTH_TRUST_PROXY: `10.0.0.0/8, ${block}` })).toThrow(
      `NTH_TRUST_PROXY has "${block}", which is not a network such as 10.0.0.0/8.`,
    )
  },
)
