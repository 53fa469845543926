// @module-tag slow
import { expect, it, onTestFinished } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import type { Client } from '../support/client/client.ts'
import { upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { signalProcess } from '../support/database/privateServer.ts'
import { startNth } from '../support/server/nthProcess.ts'

const CALLERS = 16

/** `also`: what a caller wants besides the value; then a flush takes two round trips, and has its rows locked in between. */
function hammer({ send }: Client, also = '') {
  return startLoad(CALLERS, async () => {
    const { data, errors } = await send(`mutation { increment(name: "hot") { value ${also} } }`)
    if (errors?.[0]) throw { code: errors[0].extensions.code }
    return data.increment.value
  })
}

async function twoServers(target: Target) {
  const DATABASE_URL = urlOf(target)
  const first = await startNth({ DATABASE_URL })
  const second = await startNth({ DATABASE_URL })
  await first.ask('mutation { reset(name: "hot") { value } }')
  return [first, second] as const
}

async function valueIn(target: Target): Promise<number> {
  return (await query(target, 'select value from counter_value'))[0]?.value
}

it('has in the row what a killed process answered, nothing twice, and the other one goes on', async () => {
  const target = await freshDatabase({ migrated: false })
  const [first, second] = await twoServers(target)
  const killed = hammer(first)
  const other = hammer(second)
  await Promise.all([killed.afterMore(1000), other.afterMore(1000)])
  first.child.kill('SIGKILL')
  await first.exited
  await killed.end()
  await other.afterMore(1000)
  await other.end()
  expect(other.refused).toEqual([])
  const returned = [...killed.answered, ...other.answered]
  expect(new Set(returned).size).toBe(returned.length)
  const value = await valueIn(target)
  expect(Math.max(...returned)).toBeLessThanOrEqual(value)
  expect(value).toBeGreaterThanOrEqual(returned.length)
  // Calls that the killed one had under way may have counted although no result was returned.
  expect(value).toBeLessThanOrEqual(returned.length + CALLERS)
})

it('waits seconds, not hours, for the rows of a process that is frozen in the middle of a flush', async () => {
  const target = await freshDatabase({ migrated: false })
  const [first, second] = await twoServers(target)
  const pid = first.child.pid ?? 0
  onTestFinished(() => signalProcess(pid, 'SIGCONT').catch(() => undefined))
  const frozen = hammer(first, 'valueIn(period: DAY)')
  await frozen.afterMore(100)
  // Again until it is met with its rows locked.
  await expect
    .poll(async () => {
      await signalProcess(pid, 'SIGSTOP')
      const [open] = await query(
        target,
        `select count(*) as flushes
           from information_schema.innodb_trx t
           join information_schema.processlist p on p.id = t.trx_mysql_thread_id
          where p.db = '${target.database}' and p.command = 'Sleep' and t.trx_rows_locked > 1`,
      )
      if (Number(open?.flushes) > 0) return true
      await signalProcess(pid, 'SIGCONT')
      return false
    })
    .toBe(true)
  const other = hammer(second)
  await other.afterMore(1000)
  await signalProcess(pid, 'SIGCONT')
  await frozen.afterMore(100)
  await Promise.all([frozen.end(), other.end()])
  // By a server's default it would have been 8 hours, and each deadline would have been over.
  expect(other.refused).toEqual([])
  const returned = [...frozen.answered, ...other.answered].toSorted((a, b) => a - b)
  expect(returned).toEqual(upTo(returned.length))
  expect(await valueIn(target)).toBe(returned.length)
})
