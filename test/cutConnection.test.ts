import { expect, it } from 'vitest'
import { ER } from '../src/mysql/errors.ts'
import { freshDatabase, query } from './support/database.ts'
import { openTestNth } from './support/nth.ts'
import { type Fate, startProxy } from './support/proxy.ts'

const key = { namespace: 'n', name: 'c' }

const FLUSH = /^start transaction;\nupdate lane\s+set seq/
const READ_AGAIN = /^select counter_id as id/
const COMMIT = /^commit$/
const LOOK = /update lane set epoch/
const NEW_SESSION = /^set session\s+sql_mode/

type Stroke = readonly [pattern: RegExp, fate: Fate]

/** A counter that stands at 0, reached through a proxy that lets each fate befall one statement. */
async function counterWith(strokes: readonly Stroke[], timeoutMs = 20_000) {
  const due: Stroke[] = []
  const database = await freshDatabase()
  const target = await startProxy(database, (statement) => {
    const index = due.findIndex(([pattern]) => pattern.test(statement))
    const [stroke] = index < 0 ? [] : due.splice(index, 1)
    return stroke?.[1] ?? 'passes'
  })
  const { counters } = openTestNth(target, { timeoutMs })
  await counters.reset(key, 0)
  due.push(...strokes)
  return {
    counters,
    /** Every stroke has fallen, and the row holds what was answered. */
    async expectCounted(value: number) {
      expect(due).toEqual([])
      expect(await query(database, 'select value from counter_value')).toEqual([{ value }])
    },
  }
}

it.each<[string, Stroke[]]>([
  ['its statements', [[FLUSH, 'is cut off']]],
  ['the answers to its statements', [[FLUSH, 'stays unanswered']]],
  ['the reading of a value', [[READ_AGAIN, 'is cut off']]],
  ['COMMIT', [[COMMIT, 'is cut off']]],
  ['the answer to COMMIT', [[COMMIT, 'stays unanswered']]],
  [
    'COMMIT, and then the look',
    [
      [COMMIT, 'is cut off'],
      [LOOK, 'is cut off'],
    ],
  ],
  [
    'the answer to COMMIT, then the look, then the next connection',
    [
      [COMMIT, 'stays unanswered'],
      [LOOK, 'stays unanswered'],
      [NEW_SESSION, 'is cut off'],
    ],
  ],
])('counts once, and tells the number, when the connection is cut at %s', async (_, strokes) => {
  const { counters, expectCounted } = await counterWith(strokes)
  expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 1, previousValue: 0 })
  await expectCounted(1)
})

it.each(Object.entries(ER))('counts once when COMMIT is answered with %s', async (_, errno) => {
  const { counters, expectCounted } = await counterWith([[COMMIT, { errno }]])
  expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 1 })
  await expectCounted(1)
})

it.each(Object.entries(ER).filter(([name]) => !['DUP_ENTRY', 'BAD_DB', 'NO_SUCH_THREAD'].includes(name)))(
  'tries again when its statements are answered with %s',
  async (_, errno) => {
    const { counters, expectCounted } = await counterWith([[FLUSH, { errno }]])
    expect(await counters.incrementBy(key, 1)).toMatchObject({ value: 1 })
    await expectCounted(1)
  },
)

it('says that it does not know only where the ledger could not be asked in time', async () => {
  const strokes = Array.from({ length: 100 }, (): Stroke => [NEW_SESSION, 'is cut off'])
  const { counters } = await counterWith([[COMMIT, 'stays unanswered'], ...strokes], 500)
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
})

it('says that it does not know where the ledger is gone, as after a failover to a server that is behind', async () => {
  const database = await freshDatabase()
  let phase: 'counting' | 'cutting' | 'cut' = 'counting'
  const target = await startProxy(database, (statement) => {
    if (phase === 'cutting' && COMMIT.test(statement)) {
      phase = 'cut'
      return 'stays unanswered'
    }
    return phase === 'cut' && NEW_SESSION.test(statement) ? 'is cut off' : 'passes'
  })
  const { counters } = openTestNth(target)
  await counters.reset(key, 0)
  phase = 'cutting'
  const answer = counters.incrementBy(key, 1).catch(({ code }) => code)
  await expect.poll(() => phase).toBe('cut')
  await query(database, 'delete from lane')
  phase = 'counting'
  expect(await answer).toBe('OUTCOME_UNKNOWN')
  expect((await counters.incrementBy(key, 1)).value).toBe(2)
})

it('says "not done" of what was not, when the database cannot be reached in time', async () => {
  const strokes = Array.from({ length: 100 }, (): Stroke => [NEW_SESSION, 'is cut off'])
  const { counters } = await counterWith([[FLUSH, 'is cut off'], ...strokes], 500)
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})

it('reads again when a read is cut off', async () => {
  const { counters } = await counterWith([[/counter_value v/, 'is cut off']])
  expect((await counters.read(key)).value).toBe(0)
})
