import { setTimeout as pause } from 'node:timers/promises'
import { type Connection, createConnection } from 'mysql2/promise'
import type { Node } from './engine.ts'
import { queryNode, type Topology } from './nodes.ts'

const EVERY_MS = 50
/** For connecting and for each answer: short, as it leaves a node that stands still. */
const LIMIT_MS = 1000

/** By these settings a node has all that was committed at others before a transaction reads it, as Nth promises. */
const CAUSAL: Record<Topology, string[]> = {
  galera: ['set session wsrep_sync_wait = 7'],
  'group replication': ["set session group_replication_consistency = 'BEFORE'"],
  single: [],
}

/**
 * Writes without Nth, as an application would that has the list of all nodes: so it shows how long the database itself
 * makes one wait. There is one such writer for each node, which begins there; when a transaction fails, or has no answer
 * in time, it tries it again at the next node.
 *
 * @param onWritten called with the time a transaction took from its first attempt, in milliseconds
 */
export async function startPulse(
  nodes: readonly Node[],
  topology: Topology,
  onWritten: (waitMs: number) => void,
) {
  const [first] = nodes
  if (!first) throw new Error('The engine has no node')
  await queryNode(
    first,
    'create database pulse',
    'create table pulse.pulse (id int primary key, beats bigint not null) engine = InnoDB',
    ...nodes.map(({ number }) => `insert into pulse.pulse values (${number}, 0)`),
  )
  let isOver = false

  async function write(id: number): Promise<void> {
    let connection: Connection | undefined
    for (let index = id - 1; !isOver; await pause(EVERY_MS)) {
      const begunAt = performance.now()
      for (let isDone = false; !isDone && !isOver; ) {
        try {
          connection ??= await connect(nodes[index % nodes.length] as Node, topology)
          await change(connection, id)
          isDone = true
          onWritten(performance.now() - begunAt)
        } catch {
          connection?.destroy()
          connection = undefined
          index++
          await pause(EVERY_MS)
        }
      }
    }
    connection?.destroy()
  }

  for (const { number } of nodes) void write(number)
  return {
    end(): void {
      isOver = true
    },
  }
}

async function connect({ host, port }: Node, topology: Topology): Promise<Connection> {
  const connection = await createConnection({ host, port, user: 'root', connectTimeout: LIMIT_MS })
  connection.on('error', () => undefined)
  for (const sql of CAUSAL[topology]) await connection.query({ sql, timeout: LIMIT_MS })
  return connection
}

async function change(connection: Connection, id: number): Promise<void> {
  const statements = [
    'start transaction',
    `select beats from pulse.pulse where id = ${id} for update`,
    `update pulse.pulse set beats = beats + 1 where id = ${id}`,
    'commit',
  ]
  for (const sql of statements) await connection.query({ sql, timeout: LIMIT_MS })
}
