import type { IncomingMessage } from 'node:http'
import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { LRUCache } from 'lru-cache'

const IPV4_IN_IPV6 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i
const IPV4_IN_HEXADECIMAL = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i
/** As some proxies send addresses: with a port, and those of IPv6 in brackets. */
const WITH_PORT = /^(?:\[(.*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d+)?$/

/** Adds networks, as CIDR blocks such as `10.0.0.0/8`, or single addresses. Throws a RangeError for what is neither. */
export function networksOf(blocks: readonly string[]): BlockList {
  const networks = new BlockList()
  for (const block of blocks) {
    const [address = '', bits, ...rest] = block.split('/')
    const type = isIPv4(address) ? 'ipv4' : 'ipv6'
    const most = type === 'ipv4' ? 32 : 128
    const isBits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)
    if ((type === 'ipv6' && !isIPv6(address)) || !isBits || rest.length > 0)
      throw new RangeError(`"${block}" is not a network such as 10.0.0.0/8`)
    networks.addSubnet(address, Number(bits ?? most), type)
  }
  return networks
}

/** Networks without limits for each client: trusted proxies, and this machine, as a proxy may run on it. */
export function exemptNetworks(trustedProxies: readonly string[]): BlockList {
  return networksOf([...trustedProxies, '127.0.0.0/8', '::1'])
}

/** Whether an address is in one of some networks. */
export function isWithin(networks: BlockList, address: string): boolean {
  const plain = withoutMapping(address)
  return networks.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6')
}

/**
 * The address of a client: that of the connection or, if it is a trusted proxy's, the last one in `X-Forwarded-For` that
 * isn't. What stands before it was sent by the client, and may be invented.
 */
export function clientAddress({ socket, headers }: IncomingMessage, trusted: BlockList): string {
  let address = socket.remoteAddress ?? ''
  const forwarded = headers['x-forwarded-for']
  const hops = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? '')).split(',')
  while (hops.length > 0 && isWithin(trusted, address)) {
    const sent = (hops.pop() ?? '').trim()
    const [, ipv6, ipv4] = WITH_PORT.exec(sent) ?? []
    const hop = ipv6 ?? ipv4 ?? sent
    // What isn't an address can't be followed.
    if (!isIPv4(hop) && !isIPv6(hop)) break
    address = hop
  }
  return address
}

/** Maximum remembered clients, and the length of what identifies them, in characters. */
const MAX_CACHED = 10_000
const MAX_CACHED_LENGTH = 200

/**
 * Creates the function that returns what counts as the client of a request, for limits; undefined: a trusted proxy or
 * this machine, behind which may be many.
 */
export function createLimitedClientOf(trustedProxies: readonly string[]) {
  const trusted = networksOf(trustedProxies)
  const exempt = exemptNetworks(trustedProxies)
  const clients = new LRUCache<string, { client: string | undefined }>({ max: MAX_CACHED })

  return (request: IncomingMessage): string | undefined => {
    const { remoteAddress = '' } = request.socket
    const forwarded = trustedProxies.length > 0 ? request.headers['x-forwarded-for'] : undefined
    const text = forwarded === undefined ? remoteAddress : `${remoteAddress} ${forwarded}`
    const cached = clients.get(text)
    if (cached) return cached.client
    const address = clientAddress(request, trusted)
    const client = isWithin(exempt, address) ? undefined : clientOf(address)
    if (text.length <= MAX_CACHED_LENGTH) clients.set(text, { client })
    return client
  }
}

/** What counts as one client: an IPv4 address, or the /64 network of an IPv6 address, which a client has to itself. */
export function clientOf(address: string): string {
  const plain = withoutMapping(address)
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = (plain.split('%')[0] ?? '').toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  const last = tail ? tail.split(':').length : 0
  if (tail !== undefined) while (groups.length + last < 8) groups.push('0')
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

function withoutMapping(address: string): string {
  const [, high, low] = IPV4_IN_HEXADECIMAL.exec(address) ?? []
  if (high === undefined || low === undefined) return IPV4_IN_IPV6.exec(address)?.[1] ?? address
  const parts = [high, low].map((part) => Number.parseInt(part, 16))
  return parts.flatMap((part) => [part >> 8, part & 255]).join('.')
}
