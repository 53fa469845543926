import { once } from 'node:events'
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
