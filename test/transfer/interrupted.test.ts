import { once } from 'node:events'
import { appendFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { upTo } from '../support/client.ts'
import { freshDatabase, query } from '../support/database.ts'
import { createRandom } from '../support/random.ts'
import {
  counterLine,
  entriesIn,
  exported,
  fileOf,
  fileWith,
  imported,
  type Line,
  startCommand,
} from '../support/transfer.ts'

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

/** Starts an import of 20 000 counters. `isBegun` once some are there, while most are not. */
async function startImport() {
  const target = await freshDatabase()
  const path = await fileOf(
    `name,value\n${upTo(20_000)
      .map((n) => `c${n},1\n`)
      .join('')}`,
  )
  const { child, ended } = startCommand(target, ['import', path])
  const count = async () => Number((await query(target, 'select count(*) as count from counter'))[0]?.count)
  await expect.poll(count, { timeout: 60_000, interval: 5 }).toBeGreaterThan(0)
  return { path, child, ended, count }
}

const APPLIED =
  /Applied(?: up to line (\d+)|: nothing for certain)(?:, perhaps also some of the following ones up to line (\d+))?\. Repeat the command to go on\.\n$/

/** Fails unless as many counters were created as a message says. */
function expectTruth(errors: string, count: number): void {
  expect(errors).toMatch(APPLIED)
  const [, sure = '1', perhaps = sure] = APPLIED.exec(errors) ?? []
  // The first line has the names of the columns.
  expect(count).toBeGreaterThanOrEqual(Number(sure) - 1)
  expect(count).toBeLessThanOrEqual(Number(perhaps) - 1)
}

it('says up to which line an interrupted import has come', async () => {
  const { child, ended, count } = await startImport()
  child.kill('SIGINT')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGINT', expect.stringMatching(/^Interrupted\. Applied/)])
  expectTruth(errors, await count())
})

it('stops where the file has changed since it was checked, and says up to which line it has come', async () => {
  const { path, ended, count } = await startImport()
  await appendFile(path, 'more,1\n')
  const { code, errors } = await ended
  expect([code, errors]).toEqual([1, expect.stringMatching(/^Counters: \d+ created\.\nThe file changed/)])
  expectTruth(errors, await count())
})

it('says that an import which the database has ended has not come further than it did', async () => {
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
Applied up to line 1001, perhaps also some of the following ones up to line 1501. Repeat the command to go on.\n`,
  ])
  expect(await query(target, 'select count(*) as count from counter')).toEqual([{ count: 1000 }])
})
