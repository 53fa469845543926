// @module-tag random
import { expect, it, onTestFinished } from 'vitest'
import { expectLinearizable } from '../history/expectLinearizable.ts'
import { createRecorder } from '../history/recorder.ts'
import { type Client, inParallel, sorted, upTo } from '../support/client/client.ts'
import { startLoad } from '../support/client/load.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { signalProcess } from '../support/database/privateServer.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openOnce } from '../support/openOnce.ts'
import { runSize } from '../support/random.ts'
import { type NthProcess, startNth } from '../support/server/nthProcess.ts'

/** Two server processes on one database. */
async function startPair(): Promise<[NthProcess, NthProcess]> {
  const DATABASE_URL = urlOf(await freshDatabase({ migrated: false }))
  // At the same moment, so that they migrate side by side, too.
  return Promise.all([startNth({ DATABASE_URL }), startNth({ DATABASE_URL })])
}

const TICKETS = 10 * runSize(10, 50)
const ROUNDS = runSize(10, 30)

it(`nextInSequence: two processes issue to 2 boards x 10 callers exactly the numbers 1 to ${TICKETS} each`, async () => {
  const servers = await openOnce(startPair)
  const boards = await Promise.all(
    ['NINJA', 'ROCK'].map((group) =>
      inParallel(10, TICKETS, async (index) => {
        const { nextInSequence } = await (servers[index % 2] as Client).ask(
          `mutation { nextInSequence(name: "ticket", group: "${group}") { value formatted } }`,
        )
        expect(nextInSequence.formatted).toBe(`${group}-${nextInSequence.value}`)
        return nextInSequence.value as number
      }),
    ),
  )
  for (const numbers of boards) expect(sorted(numbers)).toEqual(upTo(TICKETS))
})

it('increment: two processes sell exactly 100 of an edition of 100 to 500 buyers who come at once', async () => {
  const servers = await openOnce(startPair)
  await servers[0].ask(
    'mutation { defineCounter(name: "edition", definition: { maxValue: 100 }) { maxValue } }',
  )
  const answers = await inParallel(500, 500, async (buyer) =>
    servers[buyer % 2]?.send('mutation { increment(name: "edition") { value } }'),
  )
  const numbers = answers.flatMap((answer) => answer?.data.increment?.value ?? [])
  const refused = answers.flatMap((answer) => answer?.errors ?? [])
  expect(sorted(numbers)).toEqual(upTo(100))
  expect(refused.map(({ extensions }) => extensions)).toEqual(
    upTo(400).map(() => ({ code: 'LIMIT_REACHED', limit: 100, value: 100 })),
  )
})

it('increment: two processes count one of 50 parallel calls with one key, and replay 49', async () => {
  const servers = await openOnce(startPair)
  const increment =
    'mutation($key: String!) { increment(name: "keyed", idempotencyKey: $key) { value replayed } }'
  for (const round of upTo(5)) {
    const answers = await inParallel(
      50,
      50,
      async (index) => (await (servers[index % 2] as Client).ask(increment, { key: `k${round}` })).increment,
    )
    expect(answers.map(({ value }) => value)).toEqual(upTo(50).map(() => round))
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  }
})

it(`increment: makes a counter that 20 callers hit at once, ${ROUNDS} times over, without a failure or a lost hit`, {
  tags: 'slow',
}, async () => {
  const [first, second] = await openOnce(startPair)
  for (let round = 0; round < ROUNDS; round++) {
    const clients = round % 2 ? [first, second] : [first]
    const values = await Promise.all(
      upTo(20).map(async (caller) => {
        const client = clients[caller % clients.length] as Client
        const data = await client.ask(
          'mutation($namespace: String!) { increment(name: "new", namespace: $namespace) { value } nextInSequence(name: "new", namespace: $namespace) { value } }',
          { namespace: `namespace ${round}` },
        )
        return [data.increment.value, data.nextInSequence.value] as [number, number]
      }),
    )
    expect(sorted(values.map(([value]) => value))).toEqual(upTo(20))
    expect(sorted(values.map(([, value]) => value))).toEqual(upTo(20))
  }
})

it('increment: replays what counted when its process was killed between COMMIT and the answer', {
  tags: 'slow',
}, async () => {
  const increment =
    'mutation($key: String!) { increment(name: "c", idempotencyKey: $key) { value replayed } }'
  const target = await freshDatabase()
  let killed: NthProcess | undefined
  const proxied = await startProxy(target, (statement) => {
    // The database will execute the statement, but the process that would read its answer no longer exists.
    if (killed && /commit$/.test(statement) && statement.includes('idempotency_key'))
      killed.child.kill('SIGKILL')
    return 'passes'
  })
  const doomed = await startNth({ DATABASE_URL: urlOf(proxied) })
  const other = await startNth({ DATABASE_URL: urlOf(target) })
  await doomed.ask('mutation { increment(name: "c") { value } }')
  killed = doomed
  const first = await Promise.allSettled(upTo(50).map(() => doomed.ask(increment, { key: 'k' })))
  expect(first.map(({ status }) => status)).toEqual(upTo(50).map(() => 'rejected'))
  expect(await doomed.exited).toBe('SIGKILL')
  const answers = await inParallel(50, 50, async () => (await other.ask(increment, { key: 'k' })).increment)
  expect(answers).toEqual(upTo(50).map(() => ({ value: 2, replayed: true })))
  expect(await other.ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 2 } })
})

it.each([
  ['a key', (index: number) => ({ idempotencyKey: `purchase ${index}` }), 2000],
  ['a subject', (index: number) => ({ subject: `subject ${index % 200}` }), 200],
  ['neither', () => ({}), undefined],
] as const)(
  'increment: a process that is killed loses no call with %s, and clients that repeat theirs count once',
  { tags: 'slow' },
  async (_, options, total) => {
    const [doomed, other] = await startPair()
    const recorder = createRecorder()
    await inParallel(32, 2000, async (index) => {
      if (index === 700) doomed.child.kill('SIGKILL')
      const call = { kind: 'increment', name: 'c', ...options(index) } as const
      const servers = index % 2 === 0 ? [doomed, other, other] : [other, doomed, other]
      // Without a key, it may have counted.
      for (const { send } of total === undefined ? servers.slice(0, 1) : servers)
        if ((await recorder.call(index, send, call)).kind === 'answered') return
    })
    expect(await doomed.exited).toBe('SIGKILL')
    await recorder.call('last', other.send, { kind: 'counters', names: ['c'] })
    await expectLinearizable(recorder.records)
    const { counter } = await other.ask('{ counter(name: "c") { value } }')
    if (total !== undefined) expect(counter.value).toBe(total)
  },
)

/** What a caller wants besides the value: then a flush takes two round trips, and has its rows locked in between. */
function hammer({ send }: Client, also = '') {
  return startLoad(16, async () => {
    const { data, errors } = await send(`mutation { increment(name: "hot") { value ${also} } }`)
    if (errors?.[0]) throw { code: errors[0].extensions.code }
    return data.increment.value
  })
}

it('increment: waits seconds, not hours, for the rows of a process that is frozen in the middle of a flush', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const DATABASE_URL = urlOf(target)
  const [first, second] = [await startNth({ DATABASE_URL }), await startNth({ DATABASE_URL })]
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
  expect((await query(target, 'select value from counter_value'))[0]?.value).toBe(returned.length)
})
