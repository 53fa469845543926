import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { Clients } from '../../src/http/clients.ts'
import { openConnections } from '../../src/http/connections.ts'
import { SILENT } from '../../src/operations/log.ts'

function socketFrom(remoteAddress: string) {
  // What the limit uses of one.
  return Object.assign(new EventEmitter(), { remoteAddress }) as unknown as Socket
}

it('counts the open connections of each address, except of proxies and this machine', () => {
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

it('answers a connection that is one too many, and executes none of its requests', async () => {
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
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  let text = ''
  socket.setEncoding('utf8').on('data', (part) => {
    text += part
  })
  await once(socket, 'end')
  socket.destroy()
  const [head = '', body = ''] = text.split('\r\n\r\n')
  expect(head).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n/)
  expect(head).toContain('\r\nretry-after: 1')
  expect(head).toContain('\r\ncache-control: no-store')
  expect(JSON.parse(body).errors[0].extensions).toEqual({
    code: 'RATE_LIMITED',
    limit: 0,
    retryAfterMs: 1000,
    retryable: true,
  })
  expect(handled).toBe(0)
})
