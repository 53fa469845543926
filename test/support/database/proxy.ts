import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Target } from '../../../src/mysql/settings.ts'

/** How a statement is delivered to the server. */
export type Delivery =
  | 'passes'
  /** The connection ends before the server gets the statement. */
  | 'is cut off'
  /** The server gets it, and the connection ends before its answer arrives. */
  | 'stays unanswered'
  /** The server gets it, and the connection ends after so many bytes of its answer. */
  | { answeredBytes: number }
  /** The connection ends, but the server gets the statement: directly before one of the next that begin a flush. */
  | { arrivesBefore: number }
  /** Neither the server nor the client hears of the connection again: their machines, or a router, have forgotten it. */
  | 'vanishes'
  /** The server gets another statement instead. */
  | { instead: string }
  /** The server doesn't get it; the client gets this error of the server's instead. */
  | { errno: number }

/** What a text does for a flush, by words that only such a text has. Tests know the statements of flushes from here. */
export const TEXTS = {
  /** Begins a transaction: the first trip of two. */
  begins: /^start transaction;\s*update fence/,
  /** Adds to one counter and commits, in one trip. */
  addsAndCommits: /^update fence straight_join/,
  commits: /(^|;\s*)commit$/,
  readsFence: /update fence\s+set epoch/,
  opensSession: /^set session\s+sql_mode/,
}

/** Texts to deliver in some way, in any order, each once. */
export type Strokes = readonly (readonly [text: RegExp, delivery: Delivery])[]

/** A proxy that delivers the first text of each kind that is `due` as it says there, and lets all others pass. */
export async function startStrikingProxy(database: Target) {
  const due: Strokes[number][] = []
  let sessions = 0
  const target = await startProxy(database, (statement) => {
    if (TEXTS.opensSession.test(statement)) sessions += 1
    const index = due.findIndex(([text]) => text.test(statement))
    return index < 0 ? 'passes' : (due.splice(index, 1)[0]?.[1] ?? 'passes')
  })
  return { target, due, sessions: () => sessions }
}

/**
 * Stands between Nth and its database, and decides over each statement, with the number of its connection: from 1 on, in
 * order of their opening. A statement waits for a decision that is a promise. Closed when the test has finished.
 */
export async function startProxy(
  target: Target,
  deliveryOf: (statement: string, connection: number) => Delivery | Promise<Delivery>,
): Promise<Target> {
  const sockets = new Set<Socket>()
  let late: { flushes: number; send: () => Promise<unknown> } | undefined
  let connections = 0
  const server = createServer((client) => {
    const number = ++connections
    let hasVanished = false
    let bytesLeft = Number.POSITIVE_INFINITY
    /** Texts by the ids of prepared statements. */
    const prepared = new Map<number, string>()
    const statementOf = (packet: Buffer) => {
      if (packet[COMMAND] === EXECUTE) return prepared.get(packet.readUInt32LE(COMMAND + 1)) ?? ''
      const text = statementIn(packet)
      if (packet[COMMAND] !== PREPARE) return text
      upstream.once('data', (answer) => prepared.set(answer.readUInt32LE(COMMAND + 1), text))
      return `prepare ${text}`
    }
    const upstream = target.socketPath
      ? connect(target.socketPath)
      : connect(target.port ?? 3306, target.host ?? '127.0.0.1')
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end).on('close', () => hasVanished || end())
    }
    client.on('data', async (packet) => {
      const statement = statementOf(packet)
      const delivery = await deliveryOf(statement, number)
      hasVanished ||= delivery === 'vanishes'
      if (typeof delivery === 'object' && 'arrivesBefore' in delivery) {
        hasVanished = true
        client.destroy()
        late = { flushes: delivery.arrivesBefore, send: () => sent(upstream, packet) }
      }
      if (hasVanished) return
      if (late && TEXTS.begins.test(statement) && --late.flushes === 0) await late.send()
      if (delivery === 'passes') return upstream.write(packet)
      if (typeof delivery === 'object' && 'instead' in delivery)
        return upstream.write(withStatement(packet, delivery.instead))
      if (delivery === 'is cut off') return end()
      if (typeof delivery === 'object' && 'errno' in delivery)
        return client.write(errorPacket(delivery.errno))
      if (typeof delivery === 'object' && 'answeredBytes' in delivery) {
        bytesLeft = delivery.answeredBytes
        return upstream.write(packet)
      }
      upstream.removeAllListeners('data')
      upstream.write(packet)
      return upstream.once('data', end)
    })
    upstream.on('data', (packet) => {
      if (hasVanished) return
      client.write(packet.subarray(0, bytesLeft))
      bytesLeft -= packet.length
      if (bytesLeft <= 0) client.end(end)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const { socketPath: _, ...rest } = target
  return { ...rest, host: '127.0.0.1', port }
}

/** Sends a statement whose client has gone, and waits until the server has executed it, and ended the connection. */
function sent(upstream: Socket, packet: Buffer): Promise<unknown> {
  upstream.removeAllListeners('data')
  upstream.resume().end(packet)
  return once(upstream, 'close')
}

/** Where a packet has its command: behind its header. */
const COMMAND = 4
const PREPARE = 0x16
const EXECUTE = 0x17

/** The text of a query: behind its header and, for MySQL, two bytes that say that it has no attributes. */
function statementIn(packet: Buffer): string {
  const start = packet.findIndex((byte, index) => index > 4 && byte >= 0x20)
  return packet.toString('utf8', start)
}

/** The packet of a query, with another text. */
function withStatement(packet: Buffer, statement: string): Buffer {
  const start = packet.length - Buffer.byteLength(statementIn(packet))
  const changed = Buffer.concat([packet.subarray(0, start), Buffer.from(statement)])
  changed.writeUIntLE(changed.length - 4, 0, 3)
  return changed
}

/** An ERR packet of the MySQL protocol, as the first answer to a statement. */
function errorPacket(errno: number): Buffer {
  const payload = Buffer.concat([
    Buffer.from([0xff, errno & 0xff, errno >> 8]),
    Buffer.from('#HY000injected'),
  ])
  return Buffer.concat([Buffer.from([payload.length, 0, 0, 1]), payload])
}
