import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { Node } from './engine.ts'
import { queryNode } from './nodes.ts'

const EVERY_MS = 50
const CONNECT_LIMIT_MS = 1000

/**
 * Writes to each node without Nth, a row of its own, over and over: so it shows for how long the database itself could be
 * written at no node.
 *
 * @param onWritten told, at each success at any node, how long ago the one before was, in milliseconds
 */
export async function startPulse(nodes: readonly Node[], onWritten: (gapMs: number) => void) {
  const [first] = nodes
  if (!first) throw new Error('The engine has no node')
  await queryNode(
    first,
    'create database pulse',
    'create table pulse.pulse (id int primary key, beats bigint not null) engine = InnoDB',
    ...nodes.map(({ number }) => `insert into pulse.pulse values (${number}, 0)`),
  )
  let isOver = false
  let writtenAt = performance.now()

  async function beat(node: Node): Promise<void> {
    const { host, port, number } = node
    while (!isOver) {
      const options = { host, port, user: 'root', connectTimeout: CONNECT_LIMIT_MS }
      const connection = await createConnection(options).catch(() => undefined)
      connection?.on('error', () => undefined)
      try {
        while (connection && !isOver) {
          await connection.query(`update pulse.pulse set beats = beats + 1 where id = ${number}`)
          const now = performance.now()
          onWritten(now - writtenAt)
          writtenAt = now
          await pause(EVERY_MS)
        }
      } catch {
        // Down, read-only or cut off: it is tried again.
      }
      connection?.destroy()
      await pause(EVERY_MS)
    }
  }

  for (const node of nodes) void beat(node)
  return {
    end(): void {
      isOver = true
    },
  }
}
