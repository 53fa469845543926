import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import { soon } from '../soon.ts'

/** A message of the protocol. */
export type Message = { type: string; id?: string; payload?: unknown }

/** How a WebSocket was closed. */
export type Closed = { code: number; reason: string }

/** A WebSocket as a client sees it, closed when the test has finished. */
export async function openSocket(
  url: string,
  {
    path = '/graphql',
    protocol = 'graphql-transport-ws',
    ...options
  }: ClientOptions & { path?: string; protocol?: string } = {},
) {
  const socket = new WebSocket(url.replace('http', 'ws') + path, protocol ? [protocol] : [], options)
  onTestFinished(() => socket.terminate())
  const messages: Message[] = []
  let wake: () => void = () => undefined
  socket.on('message', (data) => {
    const message: Message = JSON.parse(String(data))
    if (message.type === 'ping') socket.send('{"type":"pong"}')
    messages.push(message)
    wake()
  })
  const closed = new Promise<Closed>((resolve) =>
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
  )
  await once(socket, 'open')
  let taken = 0
  const send = (message: object | string) =>
    socket.send(typeof message === 'string' ? message : JSON.stringify(message))

  async function next(): Promise<Message> {
    while (taken >= messages.length) await soon('a message', new Promise<void>((resolve) => (wake = resolve)))
    const message = messages[taken++] as Message
    return message.type === 'ping' ? next() : message
  }

  return {
    socket,
    send,
    /** The next message but pings. */
    next,
    closed: soon('the end of a WebSocket', closed),
    messages,

    async init(payload?: object): Promise<void> {
      send({ type: 'connection_init', payload })
      const { type } = await next()
      if (type !== 'connection_ack') throw new Error(`It is no connection_ack: ${type}`)
    },

    subscribe: (id: string, query: string, variables?: object) =>
      send({ type: 'subscribe', id, payload: { query, variables } }),
  }
}

/**
 * What a subscription over a WebSocket of its own is answered with at first: a result, a list of errors, or how the
 * WebSocket was closed.
 */
export async function subscribeOnSocket(
  url: string,
  query: string,
  { variables, headers }: { variables?: object; headers?: Record<string, string> },
): Promise<unknown> {
  const socket = await openSocket(url, headers ? { headers } : {})
  socket.send({ type: 'connection_init' })
  const first = await Promise.race([socket.next(), socket.closed])
  if ('code' in first) return first
  socket.subscribe('1', query, variables)
  const answer = await Promise.race([socket.next(), socket.closed])
  return 'code' in answer ? answer : answer.payload
}
