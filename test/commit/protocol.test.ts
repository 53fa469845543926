import { readFileSync } from 'node:fs'
import type { ResultSetHeader, RowDataPacket } from 'mysql2'
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import type { Hold } from '../../src/repository/holds.ts'
import type { DefinitionChange } from '../../src/rules/counter.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { hold } from '../support/database/hold.ts'
import { startProxy, TEXTS } from '../support/database/proxy.ts'
import { collectTrips, type Trip } from '../support/database/trips.ts'
import { openTestNth } from '../support/server/nth.ts'

const PAGE = new URL('../../docs/protocol.md', import.meta.url)

type Nth = ReturnType<typeof openTestNth>

/** What a flush is shown with. */
interface Scenario {
  /** What was there before. */
  prepare?: (nth: Nth) => Promise<unknown>
  /** The calls, of which those in a list arrive together. Returns what their callers get. */
  run: (
    nth: Nth,
    more: { target: Target; trips: Trip[]; nextDay: () => void; cutNext: () => void },
  ) => Promise<unknown[]>
}

const key = { namespace: 'shop', name: 'sales' }
const tickets = { namespace: 'shop', sequence: 'tickets', group: '' }
const invoices = { namespace: 'shop', sequence: 'invoices', group: '' }
const claim = claimOf('shop', 'order 5', ['sales'])

let held: Hold | undefined

/** A counter of 40 that tracks days. */
async function openSales({ counters }: Nth, more: DefinitionChange = {}) {
  await counters.define(key, { periods: [{ period: 'DAY' }], ...more })
  await counters.incrementBy(key, 40)
}

/** A counter of 40 with room for 60, of which one caller holds 2. */
async function openHeldSales(nth: Nth) {
  await openSales(nth, { maxValue: 100, hasHolds: true })
  held = await nth.holds.hold('shop', [{ name: 'sales', delta: 2 }], holdTimes(60_000))
}

const holdTimes = (ttlMs: number) => ({ ttlMs, longestMs: 86_400_000 })

const number = ({ value }: { value: number }) => value
const codeOf = ({ code }: Error & { code?: string }) => code

/** By their names in the page. */
const SCENARIOS: Record<string, Scenario> = {
  'plain increment': {
    prepare: openSales,
    run: ({ counters }) =>
      Promise.all([1, 1, 5].map((delta) => counters.incrementBy(key, delta).then(number))),
  },
  'ten counters': {
    async prepare({ counters }) {
      const names = upTo(10).map((index) => ({ namespace: 'shop', name: `page ${index}` }))
      for (const name of names) await counters.define(name, { periods: [] })
      await Promise.all(names.map((name) => counters.incrementBy(name, 40)))
    },
    run: ({ counters }) =>
      Promise.all(
        upTo(10).map(async (index) =>
          number(await counters.incrementBy({ namespace: 'shop', name: `page ${index}` }, 1)),
        ),
      ),
  },
  bound: {
    prepare: (nth) => openSales(nth, { maxValue: 41 }),
    run: ({ counters }) =>
      Promise.all([1, 1].map((delta) => counters.incrementBy(key, delta).then(number, codeOf))),
  },
  key: {
    prepare: openSales,
    run: async ({ counters }) => [number(await counters.incrementBy(key, 1, { claim }))],
  },
  number: {
    prepare: ({ sequences }) => sequences.next(tickets, 7),
    run: ({ sequences }) =>
      Promise.all(
        [1, 3].map(async (count) => {
          const { value, lastValue } = (await sequences.next(tickets, count)).issued
          return count === 1 ? value : `${value} to ${lastValue}`
        }),
      ),
  },
  reservation: {
    async prepare({ sequences }) {
      await sequences.define({ namespace: 'shop', name: 'invoices' }, { gapless: true })
      const { token } = await sequences.reserve(invoices, 60)
      await sequences.confirm(token)
    },
    run: async ({ sequences }) => [(await sequences.reserve(invoices, 60)).formatted],
  },
  hold: {
    prepare: openHeldSales,
    run: async ({ holds }) => [
      (await holds.hold('shop', [{ name: 'sales', delta: 3 }], holdTimes(300_000))).state,
    ],
  },
  'hold confirmation': {
    prepare: openHeldSales,
    run: async ({ holds }) => (held ? (await holds.confirm(held)).map(number) : []),
  },
  'new period': {
    prepare: openSales,
    async run({ counters }, { nextDay }) {
      nextDay()
      const { value, valuesIn } = await counters.incrementBy(key, 1, { wantsPeriodValues: true })
      return [value, `${valuesIn?.DAY} on that day`]
    },
  },
  'locked row': {
    prepare: openSales,
    async run({ counters }, { target, trips }) {
      const holder = await hold(target, key.name)
      trips.length = 0
      const answer = counters.incrementBy(key, 1).then(number)
      const attempts = () =>
        trips.filter(({ statements }) => statements.some((text) => text.includes('nowait')))
      await expect.poll(() => attempts().length).toBeGreaterThan(3)
      await holder.query('rollback')
      return [await answer]
    },
  },
  'lost answer': {
    prepare: openSales,
    async run({ counters }, { cutNext }) {
      cutNext()
      return [number(await counters.incrementBy(key, 1))]
    },
  },
}

it('docs/protocol.md: shows the statements of each kind of flush, with their values', async () => {
  let page = readFileSync(PAGE, 'utf8')
  for (const [name, scenario] of Object.entries(SCENARIOS)) {
    const block = new RegExp(`(<!-- ${name} -->\n\`\`\`sql\n)([^]*?)(\`\`\`)`)
    const shown = block.exec(page)?.[2]
    expect(shown).toBeDefined()
    let played = await play(scenario)
    // On a machine that is held up for seconds, the server ends idle sessions, which are then opened again.
    for (let repeats = 0; played !== shown && repeats < 2; repeats++) played = await play(scenario)
    page = page.replace(block, (_, start, __, end) => start + played + end)
  }
  await expect(page).toMatchFileSnapshot(PAGE.pathname)
})

async function play({ prepare, run }: Scenario): Promise<string> {
  const target = await freshDatabase()
  let isCut = false
  const proxied = await startProxy(target, (statement) => {
    const isLost = isCut && TEXTS.addsAndCommits.test(statement)
    if (isLost) isCut = false
    return isLost ? 'stays unanswered' : 'passes'
  })
  let now = Date.UTC(2026, 10, 29, 10)
  const nth = openTestNth(proxied, { now: () => new Date(now) })
  await prepare?.(nth)
  const trips = collectTrips()
  const results = await run(nth, {
    target,
    trips,
    nextDay() {
      now += 86_400_000
    },
    cutNext() {
      isCut = true
    },
  })
  const sent = trips.splice(0)
  await nth.close()
  const show = await openNotation(target)
  const shown = withoutRepeats(sent.map((trip) => textOf(trip, show)))
  return `${shown.join('\n\n')}\n\n-- Result: ${results.join(', ')}\n`
}

/** Attempts that are repeated without a change are shown once. */
function withoutRepeats(trips: readonly string[]): string[] {
  const shown: string[] = []
  for (const trip of trips) {
    shown.push(trip)
    for (const length of [1, 2, 3]) {
      const [before, last] = [shown.slice(-2 * length, -length), shown.slice(-length)]
      if (before.join() === last.join()) shown.splice(-length)
    }
  }
  return shown
}

function textOf({ statements, answers, error }: Trip, show: (text: string) => string): string {
  const lines = statements.flatMap((statement, index) => [
    `${show(statement)};`,
    ...answerOf(statement, answers[index], show),
  ])
  return [...lines, ...(error ? [`--> ${failureIn(error)}`] : [])].join('\n')
}

/** MySQL has two errors for a row that is locked. */
function failureIn(error: Error): string {
  return codeOf(error)?.startsWith('ER_LOCK') ? 'error: locked' : 'connection lost'
}

function answerOf(statement: string, answer: unknown, show: (text: string) => string): string[] {
  if (Array.isArray(answer)) {
    const rows = answer as RowDataPacket[]
    if (rows.length === 0) return ['--> no row']
    return rows.map((row) => {
      const columns = Object.entries(row).map(([name, value]) => `${name} ${shownValue(name, value, show)}`)
      return `--> ${columns.join(', ')}`
    })
  }
  const { affectedRows = 0, insertId = 0 } = (answer ?? {}) as Partial<ResultSetHeader>
  if (!answer || !/^(insert|update|delete)/.test(statement)) return []
  return [`--> ${affectedRows} changed${insertId === 0 ? '' : `, last_insert_id ${insertId}`}`]
}

/** Differs each time. */
const CLOCKS = ['now', 'now_ms', 'expires_at']

function shownValue(name: string, value: unknown, show: (text: string) => string): string {
  if (CLOCKS.includes(name)) return `:${name}`
  if (Buffer.isBuffer(value)) return show(`x'${value.toString('hex')}'`)
  return show(value instanceof Date ? value.toISOString() : String(value))
}

/** How texts and numbers are shown: those that differ each time by what they are, and others as they are. */
async function openNotation(target: Target): Promise<(text: string) => string> {
  const names = new Map<string, string>()
  const name = async (what: string, statement: string) => {
    for (const row of await query(target, statement)) names.set(String(Object.values(row)[0]), what)
  }
  await name(':fence', 'select id from fence')
  await name(':version', 'select version from counter union select version from sequence')
  await name(':identity', 'select identity from sequence_group')
  await name(':expires_at', "select date_format(expires_at, '%Y%m%d%H%i%s.%f') from reservation")
  await name(':latest', 'select latest from hold')
  await name(':expiry2', 'select expires_at from hold where amount = 2')
  await name(':expiry3', 'select expires_at from hold where amount = 3')
  const hashes: string[] = []
  return (text) =>
    text
      .replace(/x'([0-9a-f]*)'/g, (_, hex) => {
        const readable = Buffer.from(hex, 'hex').toString()
        if (/^ +$/.test(readable)) return ':blank'
        if (/^[ -~]*$/.test(readable)) return `'${readable.trimEnd()}'`
        if (!hashes.includes(hex)) hashes.push(hex)
        return `:hash${hashes.indexOf(hex) + 1}`
      })
      .replace(/[\d.]{6,}/g, (digits) => {
        const isRevision = digits.length === 15 && !digits.includes('.')
        return names.get(digits) ?? names.get(`${digits}000`) ?? (isRevision ? ':revision' : digits)
      })
}
