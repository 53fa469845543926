// @module-tag slow
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { JOBS } from '../../src/mysql/slots.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { openOnce } from '../support/openOnce.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { exported, imported } from '../support/server/transfer.ts'

const PACKET = 65_536
/** What else a packet has takes up to four bytes. */
const LONGEST = PACKET - 8

let databases = 0

/** A server that takes only short statements. */
async function startServer(): Promise<Target> {
  const { target } = await privateServer(await temporaryDirectory())
  await query(target, `set global max_allowed_packet = ${PACKET}`)
  return target
}

/** A database with the tables on that server, which is the same for all tests of this file. */
async function server(): Promise<Target> {
  const root = await openOnce(startServer)
  const target = { ...root, database: `short${++databases}` }
  await query(root, `create database ${target.database}`)
  await migrate(target)
  return target
}

const longName = (index: number) => `${index}`.padStart(100, '0').padStart(191, 'ü')
const NAMES = Array.from({ length: 500 }, (_, index) => longName(index))
const KEYS = NAMES.map((name) => ({ namespace: 'n', name }))

it('max_allowed_packet: counts and reads many long names at once on a server that takes only short statements', async () => {
  const nth = openTestNth(await server())
  const { counters, sequences } = nth
  const first = await Promise.all(KEYS.map((key) => counters.incrementBy(key, 1)))
  expect(first.map(({ value }) => value)).toEqual(NAMES.map(() => 1))
  const second = await Promise.all(KEYS.map((key, index) => counters.incrementBy(key, index)))
  expect(second.map(({ value }) => value)).toEqual(NAMES.map((_, index) => 1 + index))
  const states = await counters.readMany(KEYS)
  expect(states.map(({ value }) => value)).toEqual(NAMES.map((_, index) => 1 + index))
  const histories = await Promise.all(states.map((counter) => counters.valueIn(counter, 'DAY')))
  expect(histories).toEqual(NAMES.map((_, index) => 1 + index))
  const groups = NAMES.slice(0, 200).map((group) => ({ namespace: 'n', sequence: 's', group }))
  const numbers = await Promise.all(groups.map((group) => sequences.next(group, 2)))
  expect(numbers.map(({ issued }) => issued.value)).toEqual(groups.map(() => 1))
  const read = await sequences.readSequenceGroups(groups)
  expect(read).toHaveLength(200)
  expect(nth.faults).toEqual([])
})

it('max_allowed_packet: refuses a request that is too large for such a server alone, and no other of the same flush', async () => {
  const nth = openTestNth(await server())
  const many = Array.from({ length: 1000 }, (_, index) => ({ name: `many ${index}`, delta: index + 1 }))
  const claim = (index: number) => ({ claim: claimOf('n', `key ${index}`, [index]) })
  const refused = nth.counters.incrementMany('n', many, { ...claim(-1) })
  const others = NAMES.map((name, index) =>
    nth.counters.incrementMany(
      'n',
      [
        { name, delta: 1 },
        { name: 'sum', delta: 1 },
      ],
      claim(index),
    ),
  )
  await expect(refused).rejects.toMatchObject({
    code: 'REQUEST_ENTITY_TOO_LARGE',
    details: { limit: LONGEST },
    message: expect.stringContaining('nothing was done'),
  })
  const sums = (await Promise.all(others)).map(([, sum]) => sum?.value)
  expect(sums.toSorted((a = 0, b = 0) => a - b)).toEqual(NAMES.map((_, index) => index + 1))
  expect(await nth.counters.read({ namespace: 'n', name: 'many 3' })).toMatchObject({ value: 0 })
  // Its rows are not kept apart.
  expect((await nth.counters.incrementBy({ namespace: 'n', name: 'many 3' }, 2)).value).toBe(2)
  expect(nth.faults).toEqual([])
})

it('max_allowed_packet: imports to such a server', async () => {
  const [before, after] = [await freshDatabase(), await server()]
  const { counters } = openTestNth(before)
  await Promise.all(KEYS.map((key, index) => counters.incrementBy(key, index)))
  const { code, errors } = await imported(after, await exported(before))
  expect([code, errors]).toEqual([0, expect.stringContaining('Counters: 500 created.')])
  const read = await openTestNth(after).counters.readMany(KEYS)
  expect(read.map(({ value }) => value)).toEqual(NAMES.map((_, index) => index))
})

it('max_allowed_packet: sends the longest statement that the server takes, and no longer one', async () => {
  // Without a time limit, which would make it longer.
  const database = openTestDatabase(await server())
  const textOf = (length: number) =>
    `select length('${'x'.repeat(length - "select length('') as length".length)}') as length`
  const sent = (length: number) => database.withRetry(JOBS, (connection) => connection.select(textOf(length)))
  await expect(sent(LONGEST)).resolves.toEqual([{ length: expect.any(Number) }])
  await expect(sent(LONGEST + 1)).rejects.toMatchObject({ code: 'REQUEST_ENTITY_TOO_LARGE' })
})
