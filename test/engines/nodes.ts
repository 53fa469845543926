import { setTimeout as pause } from 'node:timers/promises'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import type { Node } from './engine.ts'

/** How a database's servers belong together. */
export type Topology = 'galera' | 'group replication' | 'single'

const LIMIT_MS = 5000
const WHOLE_LIMIT_MS = 180_000

/** Runs statements at one node, and returns the rows of the last. */
export async function queryNode(node: Node, ...statements: string[]): Promise<RowDataPacket[]> {
  const { host, port } = node
  const connection = await createConnection({ host, port, user: 'root', connectTimeout: LIMIT_MS })
  connection.on('error', () => undefined)
  try {
    let rows: RowDataPacket[] = []
    for (const sql of statements) [rows] = await connection.query<RowDataPacket[]>({ sql, timeout: LIMIT_MS })
    return rows
  } finally {
    connection.destroy()
  }
}

export async function topologyOf(nodes: readonly Node[]): Promise<Topology> {
  const [first] = nodes
  if (!first) throw new Error('The engine has no node')
  if (Number((await galeraStatus(first)).wsrep_cluster_size) > 0) return 'galera'
  return nodes.length > 1 ? 'group replication' : 'single'
}

/** Waits until every node serves, and knows of all others. */
export async function untilWhole(nodes: readonly Node[], topology: Topology): Promise<void> {
  const deadline = performance.now() + WHOLE_LIMIT_MS
  for (const node of nodes) {
    while (true) {
      const problem = await problemOf(node, nodes.length, topology).catch((error) => String(error))
      if (problem === undefined) break
      if (performance.now() > deadline) throw new Error(`Node ${node.number} has not come back: ${problem}`)
      await pause(200)
    }
  }
}

/** What is wrong with a node; undefined: nothing. */
async function problemOf(node: Node, size: number, topology: Topology): Promise<string | undefined> {
  if (topology === 'galera') {
    const { wsrep_cluster_size: known, wsrep_local_state_comment: state } = await galeraStatus(node)
    return known === String(size) && state === 'Synced' ? undefined : `${state}, knows ${known} nodes`
  }
  if (topology === 'group replication') {
    const [row] = await queryNode(
      node,
      "select count(*) as online from performance_schema.replication_group_members where member_state = 'ONLINE'",
    )
    return row?.online === size ? undefined : `${row?.online} members are online`
  }
  await queryNode(node, 'select 1')
  return undefined
}

async function galeraStatus(node: Node): Promise<Record<string, string>> {
  const rows = await queryNode(node, "show global status like 'wsrep%'")
  return Object.fromEntries(rows.map(({ Variable_name, Value }) => [Variable_name, Value]))
}

/**
 * The node that a user writes to: the one with most of its connections. Undefined if it has none.
 *
 * After a failover, some of them may remain open on the node that was used before.
 */
export async function nodeUsedBy(user: string, nodes: readonly Node[]): Promise<Node | undefined> {
  const counts = await Promise.all(
    nodes.map(async (node) => {
      const statement = `select count(*) as number from information_schema.processlist where user = '${user}'`
      const [row] = await queryNode(node, statement).catch(() => [])
      return { node, number: Number(row?.number ?? 0) }
    }),
  )
  const [most] = counts.filter(({ number }) => number > 0).toSorted((a, b) => b.number - a.number)
  return most?.node
}
