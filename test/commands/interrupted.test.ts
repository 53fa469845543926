// @module-tag slow
import { once } from 'node:events'
import { appendFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { createRandom } from '../support/random.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import {
  counterLine,
  entriesIn,
  exported,
  fileOf,
  fileWith,
  imported,
  type Line,
  runCommand,
  startCommand,
} from '../support/server/transfer.ts'

const COUNTERS = 6000
const GROUPS = 2000

function largeFile(): string {
  const key = { namespace: 'default', sequence: 's' }
  const counters = upTo(COUNTERS).map((n) =>
    counterLine(`c${n}`, n, {
      history: { DAY: [['2026-10-01T00:00:00Z', n]], MONTH: [['2026-10-01T00:00:00Z', 2 * n]] },
    }),
  )
  const groups = upTo(GROUPS).map(
    (n): Line => ({
      type: 'sequenceGroup',
      ...key,
      group: `g${n}`,
      latest: { period: 0, format: null, timeZone: 'UTC', isCurrent: true },
      periods: [
        { period: 0, lastValue: n, nextValue: null, generation: 0, createdAt: null, updatedAt: null },
      ],
    }),
  )
  return fileWith([...counters, ...groups])
}

const sorted = (text: string) => entriesIn(text).map((line) => JSON.stringify(withoutTimes(line)))
const withoutTimes = (line: Line) => ({ ...line, ...(line.type === 'sequence' && { createdAt: '' }) })

it('ends in the same state if it is killed in the middle again and again, and then repeated', async () => {
  const [whole, killed] = [await freshDatabase(), await freshDatabase()]
  const random = createRandom()
  const text = largeFile()
  const path = await fileOf(text)
  expect((await imported(whole, text)).code).toBe(0)
  let hits = 0
  for (const _ of upTo(20)) {
    const { child, ended } = startCommand(killed, ['import', path])
    const goal = random.below(COUNTERS)
    const closed = once(child, 'close')
    let isOver = false
    closed.then(() => {
      isOver = true
    })
    // Killed once so many counters are there, which may be in the middle of a transaction.
    while (!isOver) {
      const [row] = await query(killed, 'select count(*) as count from counter')
      if (row?.count >= goal && row?.count > 0) break
    }
    child.kill('SIGKILL')
    if ((await ended).code === 'SIGKILL') hits++
  }
  expect(hits).toBeGreaterThan(10)
  const { code } = await imported(killed, text)
  expect(code).toBe(0)
  expect((await imported(killed, text)).errors).toBe(
    `Counters: ${COUNTERS} unchanged.\nSequence groups: ${GROUPS} unchanged.\n`,
  )
  expect(sorted(await exported(killed)).toSorted()).toEqual(sorted(await exported(whole)).toSorted())
  // No counter is missing on the leaderboard, although no server has run a scan.
  const [listed] = await query(killed, 'select count(*) as count, sum(value) as total from leaderboard')
  expect([listed?.count, Number(listed?.total)]).toEqual([COUNTERS, (COUNTERS * (COUNTERS + 1)) / 2])
})

/** A database that has the counter `c1234`, whose row is locked: an import waits at it. */
async function lockedDatabase() {
  const target = await freshDatabase()
  await runCommand(target, ['import', '-'], 'name,value\nc1234,1\n')
  // Connected to no database: a restore refuses one that others use.
  const { database, ...rest } = target
  const server = { ...rest, database: '' }
  const numberOf = async (statement: string) => Number((await query(server, statement))[0]?.number)
  const holder = await createConnection(server)
  onTestFinished(() => holder.destroy())
  async function lock(): Promise<void> {
    const counter = `(select id from ${database}.counter where name = 'c1234')`
    // Otherwise it would lock the gap for later rows, too.
    await holder.query('set transaction isolation level read committed')
    await holder.query('begin')
    await holder.query(`select * from ${database}.counter_value where counter_id = ${counter} for update`)
  }
  await lock()
  return {
    target,
    lock,
    release: () => holder.query('rollback'),
    others: () => numberOf(`select count(*) - 1 as number from ${database}.counter`),
    sum: () => numberOf(`select sum(value) as number from ${database}.counter_value`),
  }
}

const ROWS = `name,value\n${upTo(5000)
  .map((n) => `c${n},1\n`)
  .join('')}`

const APPLIED =
  /Applied (?:up to line (\d+)|no line for certain)(?:, and perhaps some lines up to (\d+))?\. Repeat the command (?:to go on|with --continue)\.\n$/

/** Fails unless as many counters were created as a message says. */
function expectTruth(errors: string, count: number): void {
  expect(errors).toMatch(APPLIED)
  const [, sure = '1', perhaps = sure] = APPLIED.exec(errors) ?? []
  // The first line has no counter, and one of the counters was there before.
  expect(count).toBeGreaterThanOrEqual(Number(sure) - 2)
  expect(count).toBeLessThanOrEqual(Number(perhaps) - 1)
}

it('reports the line that an interrupted import has reached', { tags: 'quick' }, async () => {
  const { target, others } = await lockedDatabase()
  const { child, ended } = startCommand(target, ['import', await fileOf(ROWS)])
  await expect.poll(others).toBeGreaterThanOrEqual(1000)
  child.kill('SIGINT')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGINT', expect.stringMatching(/^Interrupted\. Applied up to line/)])
  expectTruth(errors, await others())
})

it('stops where the file has changed since it was checked, and reports the line that it has reached', async () => {
  const { target, others, release } = await lockedDatabase()
  const path = await fileOf(ROWS)
  const { ended } = startCommand(target, ['import', path])
  await expect.poll(others).toBeGreaterThanOrEqual(1000)
  await appendFile(path, 'more,1\n')
  await release()
  const { code, errors } = await ended
  expect([code, errors]).toEqual([1, expect.stringMatching(/^Counters: .*\.\nThe file changed while/)])
  expectTruth(errors, await others())
})

it('reports for an import that the database ended no more than what it has imported', {
  tags: 'quick',
}, async () => {
  const target = await freshDatabase()
  await query(
    target,
    `create trigger refuse before insert on counter for each row
     begin if new.name = 'c1234' then signal sqlstate '45000' set message_text = 'not this one'; end if; end`,
  )
  const rows = upTo(2000).map((n) => `c${n},1\n`)
  const { code, errors } = await imported(target, `name,value\n${rows.join('')}`)
  expect([code, errors]).toEqual([
    1,
    `Counters: 1000 created.
not this one
Applied up to line 1001, and perhaps some lines up to 1501. Repeat the command to go on.\n`,
  ])
  expect(await query(target, 'select count(*) as count from counter')).toEqual([{ count: 1000 }])
})

it('reports the line that an interrupted restore has reached', async () => {
  const { target, others } = await lockedDatabase()
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'nth.jsonl'), fileWith(upTo(5000).map((n) => counterLine(`c${n}`, 1))))
  const { child, ended } = startCommand(target, ['restore', directory, '--continue'])
  await expect.poll(others).toBeGreaterThanOrEqual(1000)
  child.kill('SIGTERM')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGTERM', expect.stringMatching(/^Interrupted\. Applied up to line/)])
  expectTruth(errors, await others())
})

it('reports how many numbers an interrupted restore has advanced', async () => {
  const { target, lock, release, sum } = await lockedDatabase()
  await release()
  expect((await runCommand(target, ['import', '-'], ROWS)).code).toBe(0)
  await lock()
  const { child, ended } = startCommand(target, ['restore', '--advance', '7'])
  const moved = async () => ((await sum()) - 5000) / 7
  // The locked one is among the first 500.
  await expect.poll(moved).toBe(499)
  child.kill('SIGTERM')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGTERM', expect.stringMatching(MOVED)])
  const [, sure] = MOVED.exec(errors) ?? []
  expect(await moved()).toBeGreaterThanOrEqual(Number(sure))
  expect(await moved()).toBeLessThanOrEqual(Number(sure) + 500)
})

const MOVED =
  /^Interrupted\. Moved on by 7: (\d+) counters, 0 sequence groups, and perhaps up to 500 more of both\. A repeat moves them once more\.\n$/

it('does not report a restore as complete if it has refused something', async () => {
  const target = await freshDatabase()
  const directory = await temporaryDirectory()
  const definition = { ...(counterLine('a', 0).definition as object), maxValue: 3 }
  const lines = [counterLine('a', 9, { definition }), counterLine('b', 1)]
  await writeFile(join(directory, 'nth.jsonl'), fileWith(lines))
  expect(await runCommand(target, ['restore', directory])).toMatchObject({
    code: 1,
    output: 'Restored as of 2026-11-20T00:00:00.000Z. Refused entries: 1.\n',
    errors: expect.stringContaining('Counters: 1 created, 1 refused.\n'),
  })
})
