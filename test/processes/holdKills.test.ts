// @module-tag slow
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { inParallel, type ReceivedError, sorted, upTo } from '../support/client/client.ts'
import { urlOf } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { createRandom } from '../support/random.ts'
import { dataDirectory, type NthProcess, startNth } from '../support/server/nthProcess.ts'

const SEATS = 100
const CALLERS = 500

const DEFINE = `mutation { defineCounter(name: "seats", definition: { maxValue: ${SEATS} }) { maxValue } }`
const HOLD = `mutation($key: String) {
  hold(changes: [{ name: "seats", delta: 1 }], ttlSeconds: 3, idempotencyKey: $key) { id }
}`
const CONFIRM = 'mutation($id: ID!) { confirmHold(id: $id) { value } }'
const STATE = 'query($id: ID!) { node(id: $id) { ... on Hold { state } } }'
const SEATS_NOW = '{ counter(name: "seats") { value held } }'

/** Codes with which callers ask again: nothing was applied, or nobody knows. */
const ASK_AGAIN = ['UNAVAILABLE', 'OUTCOME_UNKNOWN', 'OVERLOADED', 'CONFLICT']

// The query of a test is the type of its result.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Outcome = { data: any } | { refusal: ReceivedError['extensions'] }

/** What a caller does after it has a hold. Those that die leave the rest to whoever finds the mark of their payment. */
type Fate = 'buys' | 'dies before it pays' | 'pays late' | 'dies after it paid' | 'dies without its answer'

const FATES: Fate[] = [
  ...upTo(6).map((): Fate => 'buys'),
  'dies before it pays',
  'pays late',
  'dies after it paid',
  'dies without its answer',
]

it('sells 100 seats to 500 callers, each once, while callers, servers and the database are killed', async () => {
  const directory = await dataDirectory()
  const notices: string[] = []
  const { target } = await privateServer(directory, (notice) => notices.push(notice))
  const environment = { DATABASE_URL: urlOf(target), NTH_WRITE_TIMEOUT_MS: '5000' }
  const start = () => startNth(environment)
  const servers = [start(), start()]
  const random = createRandom()

  /** Asks one server after the other, until one answers. */
  async function ask(caller: number, query: string, variables = {}): Promise<Outcome> {
    for (let attempt = caller; ; attempt++) {
      const outcome = await servers[attempt % 2]
        ?.then((server) => server.send(query, variables))
        // Its server was killed.
        .catch(() => undefined)
      const [error] = outcome?.errors ?? []
      if (outcome && !error) return { data: outcome.data }
      if (error && !ASK_AGAIN.includes(error.extensions.code)) return { refusal: error.extensions }
      // As clients do.
      await pause(50 + random.below(100))
    }
  }

  /** By caller: the hold that it paid for. */
  const paid = new Map<number, string>()
  /** By caller: its number, or the code with which it was told no. */
  const answers = new Map<number, number | string>()

  /** Null: sold out. */
  async function hold(caller: number): Promise<string | null> {
    for (;;) {
      const outcome = await ask(caller, HOLD, { key: `caller ${caller}` })
      if ('data' in outcome) return outcome.data.hold.id
      const { code, limit, value, held = 0 } = outcome.refusal
      expect([code, limit, Number(value) + Number(held)]).toEqual(['LIMIT_REACHED', SEATS, SEATS])
      if (value === limit) return null
      // All that are left are being paid for.
      await pause(200 + random.below(300))
    }
  }

  async function confirm(caller: number, id: string): Promise<number | string> {
    const outcome = await ask(caller, CONFIRM, { id })
    if ('data' in outcome) return outcome.data.confirmHold[0].value
    expect(['LIMIT_REACHED', 'RESERVATION_CLOSED']).toContain(outcome.refusal.code)
    return outcome.refusal.code
  }

  async function isExpired(caller: number, id: string): Promise<boolean> {
    const outcome = await ask(caller, STATE, { id })
    return 'data' in outcome && outcome.data.node.state === 'EXPIRED'
  }

  async function buy(caller: number): Promise<void> {
    const fate = FATES[random.below(FATES.length)]
    const id = await hold(caller)
    if (id === null) {
      answers.set(caller, 'sold out')
      return
    }
    if (fate === 'dies before it pays') return
    if (fate === 'pays late') while (!(await isExpired(caller, id))) await pause(200)
    // Paying takes a while.
    await pause(random.below(1500))
    paid.set(caller, id)
    if (fate === 'dies after it paid') return
    if (fate === 'dies without its answer') {
      const server = await servers[caller % 2]
      await server?.send(CONFIRM, { id }).catch(() => undefined)
      return
    }
    answers.set(caller, await confirm(caller, id))
  }

  async function restart(index: number): Promise<void> {
    const server = (await servers[index]) as NthProcess
    server.child.kill('SIGKILL')
    servers[index] = server.exited.then(start)
    await servers[index]
  }

  /** It starts again by itself. */
  async function killDatabase(): Promise<void> {
    const deaths = () => notices.filter((notice) => notice.includes('exited unexpectedly')).length
    const before = deaths()
    await signalServer(directory, 'SIGKILL')
    await expect.poll(deaths).toBe(before + 1)
    await ask(0, SEATS_NOW)
  }

  await ask(0, DEFINE)
  const callers = inParallel(CALLERS, CALLERS, buy)
  const kills = [
    () => restart(0),
    killDatabase,
    () => restart(1),
    killDatabase,
    () => Promise.all([killDatabase(), restart(0), restart(1)]),
  ]
  for (const [index, kill] of kills.entries()) {
    // Without as many payments, the seats cannot be sold.
    await expect.poll(() => paid.size, { interval: 5 }).toBeGreaterThan(5 + index * 20)
    await kill()
  }
  await callers

  // What was abandoned comes back by time alone.
  await expect
    .poll(() => Promise.all([0, 1].map((server) => ask(server, SEATS_NOW))))
    .toEqual([0, 1].map(() => ({ data: { counter: { value: expect.any(Number), held: 0 } } })))

  // The payments of callers that died are found, and repeats of the others return what they returned.
  await inParallel(16, CALLERS, async (caller) => {
    const id = paid.get(caller)
    if (id === undefined) return
    const answer = await confirm(caller, id)
    expect(answer).toBe(answers.get(caller) ?? answer)
    answers.set(caller, answer)
  })
  const numbers = [...answers.values()].filter((answer) => typeof answer === 'number')
  expect(sorted(numbers)).toEqual(upTo(SEATS))
  expect([...paid.keys()].filter((caller) => !answers.has(caller))).toEqual([])
  for (const server of [0, 1])
    expect(await ask(server, SEATS_NOW)).toEqual({ data: { counter: { value: SEATS, held: 0 } } })
})
