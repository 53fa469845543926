// @module-tag slow
import { randomBytes, randomInt } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { FailoverDetector } from '../../src/mysql/health.ts'
import type { Database } from '../../src/mysql/pool.ts'
import { openCounterRows } from '../../src/repository/counterRows.ts'
import { openSequenceGroupRows } from '../../src/repository/sequences.ts'
import { upTo } from '../support/client/client.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const MAX_BYTES = 2 ** 23
/** More than fit. */
const ROWS = 30_000
/** Keys that are loaded in one tick. */
const BATCH = 250

function heapBytes(): number {
  collectGarbage()
  collectGarbage()
  return process.memoryUsage().heapUsed
}

/** A database that has every row that is read: the last names of a statement are those of the rows. */
function fullDatabase(parents: number, columns: object) {
  let id = 0
  const connection = {
    async select(statement: string) {
      const names = [...statement.matchAll(/x'([0-9a-f]*)'/g)].map(([, digits = '']) =>
        Buffer.from(digits, 'hex'),
      )
      const [namespace, sequence] = names
      const rows = names.slice(parents).map((name) => ({
        ...columns,
        namespace,
        sequence,
        name,
        its_group: name,
        id: ++id,
        version: randomInt(1, 2 ** 31),
        subject_salt: randomBytes(16),
      }))
      return rows
    },
  }
  // Nothing else of a database is used.
  return {
    withRetry: (_: unknown, work: (connection: object) => unknown) => work(connection),
  } as unknown as Database
}

const failover = { incarnation: 1 } as FailoverDetector

const counterColumns = {
  namespace_id: 1,
  forgotten_at: 0,
  min_value: null,
  max_value: null,
  saturates: 0,
  kept: Buffer.from('1 0 UTC HOUR:90,DAY,MONTH'),
}
const groupColumns = {
  identity: 7,
  sequence_id: 1,
  start_value: 1,
  step: 1,
  min_value: null,
  max_value: null,
  cycles: 0,
  its_format: null,
  restart_every: null,
  allow_repeats: 0,
  its_zone: Buffer.from('UTC'),
  gapless: 0,
}

const kinds = {
  counter(prefix: string) {
    const rows = openCounterRows(fullDatabase(1, counterColumns), failover, MAX_BYTES)
    const keyOf = (index: number) => ({ namespace: 'default', name: `${prefix}${index}` })
    return {
      load: (index: number) => rows.load(keyOf(index)),
      has: (index: number) => rows.cached(keyOf(index)),
    }
  },
  'sequence group'(prefix: string) {
    const rows = openSequenceGroupRows(fullDatabase(2, groupColumns), failover, MAX_BYTES)
    const keyOf = (index: number) => ({
      namespace: 'default',
      sequence: 'ticket',
      group: `${prefix}${index}`,
    })
    return {
      load: (index: number) => rows.load(keyOf(index)),
      has: (index: number) => rows.cached(keyOf(index)),
    }
  },
}

it.each([
  ['counter', 'a short', 'name-', 400],
  ['counter', 'a long', 'x'.repeat(150), 600],
  ['counter', 'a Cyrillic', 'ж'.repeat(60), 600],
  ['sequence group', 'a long', 'x'.repeat(150), 750],
] as const)('row cache: charges a %s with %s name what it takes', async (kind, _, prefix, maxBytes) => {
  let rows: ReturnType<(typeof kinds)[typeof kind]> | undefined = kinds[kind](prefix)
  for (let from = 0; from < ROWS; from += BATCH)
    await Promise.all(upTo(BATCH).map((index) => rows?.load(from + index)))
  const cached = upTo(ROWS).filter((index) => rows?.has(index)).length
  const before = heapBytes()
  // What else the worker of the tests keeps and leaves stays the same meanwhile.
  rows = undefined
  const bytes = before - heapBytes()
  expect(cached).toBeLessThan(ROWS)
  expect(MAX_BYTES / cached).toBeLessThan(maxBytes)
  expect(bytes / MAX_BYTES).toBeGreaterThan(0.7)
  expect(bytes / MAX_BYTES).toBeLessThan(1.1)
})
