import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** What one of many hostile connections sends. */
export interface Attack {
  connections: number
  /** What a connection sends when it is open. */
  textOf(index: number): string | Buffer
  /** Whether it ends its side after that, and goes on reading. */
  isHalfClosed?: boolean
  /** Whether it never reads. */
  isDeaf?: boolean
  /** What it then sends again and again, each time when the last one was sent and a pause has passed. */
  repeated?: { data: Buffer; pauseMs: number }
}

/** Pause before a connection that the server has closed is opened again, in milliseconds. */
const REOPEN_MS = 5000

/** Keeps the connections of an attack open, one after another within some time, until it is ended. */
export function openAttack(url: string, attack: Attack, withinMs: number) {
  const { connections, textOf, isHalfClosed, isDeaf, repeated } = attack
  const { port, hostname } = new URL(url)
  const sockets = new Set<Socket>()
  const statuses = new Map<string, number>()
  const beganAt = performance.now()
  let isEnded = false

  function open(index: number): void {
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    sockets.add(socket)
    socket.write(textOf(index))
    if (isHalfClosed) socket.end()
    if (repeated) repeat(socket, repeated)
    if (isDeaf) socket.pause()
    let isAnswered = false
    const onData = (chunk: Buffer) => {
      if (isAnswered) return
      isAnswered = true
      const status = chunk.toString('latin1', 9, 12)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    if (!isDeaf) socket.on('data', onData)
    socket.on('end', () => socket.destroy())
    socket.on('error', () => undefined)
    socket.on('close', async () => {
      sockets.delete(socket)
      await pause(REOPEN_MS, undefined, { ref: false })
      if (!isEnded) open(index)
    })
  }

  function repeat(socket: Socket, { data, pauseMs }: { data: Buffer; pauseMs: number }): void {
    socket.write(data, async (error) => {
      await pause(pauseMs, undefined, { ref: false })
      if (!error && !isEnded && socket.writable) repeat(socket, { data, pauseMs })
    })
  }

  let opened = 0
  const timer = setInterval(() => {
    const due = ((performance.now() - beganAt) / withinMs) * connections
    for (; opened < Math.min(due, connections); opened += 1) open(opened)
  }, 10)
  return {
    /** How many responses had each status. */
    statuses,
    end(): void {
      isEnded = true
      clearInterval(timer)
      for (const socket of sockets) socket.destroy()
    },
  }
}
