import { expect, it, onTestFinished } from 'vitest'
import { openNth } from '../src/core/nth.ts'
import { openDatabase } from '../src/mysql/database.ts'
import { ER } from '../src/mysql/errors.ts'
import { openStore } from '../src/mysql/store.ts'
import { freshDatabase } from './support/database.ts'
import { type Fate, startProxy } from './support/proxy.ts'

const key = { namespace: 'n', name: 'c' }

/** A counter that stands at 0, reached through a proxy that lets `fate` befall one statement. */
async function counterWith(pattern: RegExp, fate: Fate) {
  let isDue = false
  const target = await startProxy(await freshDatabase(), (statement) => {
    if (!isDue || !pattern.test(statement)) return 'passes'
    isDue = false
    return fate
  })
  const database = openDatabase(target)
  onTestFinished(database.close)
  const { counters } = openNth(openStore(database))
  await counters.reset(key, 0)
  isDue = true
  return counters
}

const UPDATE = /^update counter_value/
const VALUE = /^select cast\(last_insert_id/

it.each([
  ['an update', UPDATE, 'is cut off', 0],
  ['an update', UPDATE, 'stays unanswered', 1],
  // From 0 the value is read by a second statement, when the change is already there.
  ['the reading of a value', VALUE, 'is cut off', 1],
  ['the reading of a value', VALUE, 'stays unanswered', 1],
] as const)('says that it does not know when %s (%s) %s', async (_, pattern, fate, value) => {
  const counters = await counterWith(pattern, fate)
  await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  expect((await counters.read(key)).value).toBe(value)
})

it.each(Object.entries(ER))(
  'never says "not done" of a change whose value could not be read: %s',
  async (_, errno) => {
    const counters = await counterWith(VALUE, { errno })
    await expect(counters.incrementBy(key, 1)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect((await counters.read(key)).value).toBe(1)
  },
)

it.each([
  ['LOCK_DEADLOCK', 'is tried again', 1],
  ['LOCK_WAIT_TIMEOUT', 'is tried again', 1],
  ['SERVER_SHUTDOWN', 'UNAVAILABLE', 0],
  ['OPTION_PREVENTS_STATEMENT', 'UNAVAILABLE', 0],
  ['DISK_FULL', 'UNAVAILABLE', 0],
  ['CONNECTION_KILLED', 'OUTCOME_UNKNOWN', 0],
] as const)('takes %s of a change for what it means: %s', async (name, outcome, value) => {
  const counters = await counterWith(UPDATE, { errno: ER[name] })
  const answer = await counters.incrementBy(key, 1).then(
    () => 'is tried again',
    ({ code }) => code,
  )
  expect(answer).toBe(outcome)
  expect((await counters.read(key)).value).toBe(value)
})

it('reads again when a read is cut off', async () => {
  const counters = await counterWith(/counter_value v/, 'is cut off')
  expect((await counters.read(key)).value).toBe(0)
})
