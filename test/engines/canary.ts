import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import type { Node } from './engine.ts'
import { queryNode } from './nodes.ts'

export interface CanaryResult {
  answered: number
  /** Numbers that were given twice. */
  twice: number
  /** Numbers that were given and are not in what is stored. */
  lost: number
  /** Reads at one node that did not have what had been committed at another, of `READS`. */
  stale: number
}

const LIMIT_MS = 60_000
const WRITERS = 4
export const READS = 2000

/**
 * Counts by a text of several statements at two nodes of a Galera cluster, without what makes it safe: a statement
 * before COMMIT that fails unless the whole transaction still holds. Where another node's changes abort the transaction,
 * the server repeats the current statement alone, and answers OK to the COMMIT of a part.
 *
 * Ends as soon as a number was given twice or is lost, or after a minute. Then reads without waiting for other nodes.
 */
export async function runCanary([first, second]: readonly Node[]): Promise<CanaryResult> {
  if (!first || !second) throw new Error('The canary needs two nodes')
  await queryNode(
    first,
    'create database canary',
    'create table canary.fence (id int primary key, seq bigint not null)',
    'create table canary.hits (id int primary key, value bigint not null)',
    'insert into canary.hits values (1, 0)',
    ...Array.from({ length: WRITERS }, (_, id) => `insert into canary.fence values (${id}, 0)`),
  )
  const given: number[] = []
  let isOver = false

  async function count(writer: number): Promise<void> {
    const { host, port } = writer % 2 === 0 ? (first as Node) : (second as Node)
    const options = { host, port, user: 'root', database: 'canary', multipleStatements: true }
    const connection = await createConnection(options)
    await connection.query('set session transaction isolation level read committed')
    let seq = 0
    while (!isOver) {
      try {
        const [answers] = await connection.query(
          `start transaction;
           update fence set seq = ${seq + 1} where id = ${writer} and seq = ${seq};
           update hits set value = last_insert_id(value + 1) where id = 1;
           commit`,
        )
        const [, raised, hit] = Object(answers)
        if (raised.affectedRows === 1) given.push(hit.insertId)
      } catch {
        await connection.query('rollback')
      }
      const [[row]] = Object(await connection.query(`select seq from fence where id = ${writer}`))
      seq = Number(row.seq)
    }
    await connection.end()
  }

  const twice = () => given.length - new Set(given).size
  const deadline = performance.now() + LIMIT_MS
  const counting = Promise.all(Array.from({ length: WRITERS }, (_, writer) => count(writer)))
  while (performance.now() < deadline && twice() === 0) {
    await Promise.race([pause(500), counting])
  }
  isOver = true
  await counting
  const [row] = await queryNode(first, 'set session wsrep_sync_wait = 7', 'select value from canary.hits')
  return {
    answered: given.length,
    twice: twice(),
    lost: Math.max(0, new Set(given).size - Number(row?.value)),
    stale: await countStaleReads(first, second),
  }
}

async function countStaleReads(first: Node, second: Node): Promise<number> {
  const [writer, reader] = await Promise.all(
    [first, second].map(({ host, port }) =>
      createConnection({ host, port, user: 'root', database: 'canary' }),
    ),
  )
  if (!writer || !reader) throw new Error('The canary needs two connections')
  await writer.query('insert into hits values (2, 0)')
  let stale = 0
  for (let value = 1; value <= READS; value++) {
    await writer.query('update hits set value = ? where id = 2', [value])
    const [[row]] = Object(await reader.query('select value from hits where id = 2'))
    if (Number(row?.value ?? 0) < value) stale += 1
  }
  await Promise.all([writer.end(), reader.end()])
  return stale
}
