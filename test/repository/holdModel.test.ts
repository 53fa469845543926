// @module-tag random
import fc from 'fast-check'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import type { CounterChange } from '../../src/repository/counters.ts'
import type { Hold } from '../../src/repository/holds.ts'
import { calendarOf } from '../../src/rules/calendar.ts'
import { type ErrorCode, type ErrorDetails, NthError } from '../../src/rules/errors.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { freshDatabase } from '../support/database/database.ts'
import { type SessionClock, sessionClocks } from '../support/database/sessionClocks.ts'
import { ofKind } from '../support/model/ofKind.ts'
import { turnedClock } from '../support/model/periods.ts'
import { createRandom, meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const START = Date.parse('2027-02-27T21:30:00Z')
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const RUNS = runSize(5, 30)
const STEPS = 70

type Nth = ReturnType<typeof openTestNth>

const NAMES = ['a', 'b', 'c'] as const
type Name = (typeof NAMES)[number]
const PERIODS = ['HOUR', 'DAY', 'MONTH'] as const
type Period = (typeof PERIODS)[number]

const name = fc.constantFrom(...NAMES)
const delta = fc.integer({ min: -5, max: 8 })
const change = fc.record({ name, delta })
const ttlMs = fc.constantFrom(1000, 5000, 10_000, 60_000, HOUR_MS, DAY_MS)
const definition = fc.record(
  {
    minValue: fc.constantFrom(null, -6, 0),
    maxValue: fc.constantFrom(null, 4, 10, 12),
    overflow: fc.constantFrom('REJECT' as const, 'SATURATE' as const),
    maxIn: fc.uniqueArray(
      fc.record({ period: fc.constantFrom(...PERIODS), max: fc.integer({ min: 2, max: 25 }) }),
      { maxLength: 2, selector: ({ period }) => period },
    ),
  },
  { requiredKeys: [] },
)
const held = fc
  .array(change, { minLength: 1, maxLength: 3 })
  .filter((changes) => changes.every(({ name, delta }) => delta !== 0 && sumsOf(changes).get(name) !== 0))

/** How far back the hold is that a step is about, of those that were made. */
const which = fc.nat({ max: 5 })

const operations = fc.oneof(
  ofKind('hold', 18, { changes: held, ttlMs }),
  ofKind('confirm', 16, {
    which,
    // Undefined: what is held. Null: the counter is left out.
    amounts: fc.option(fc.array(fc.option(fc.nat({ max: 9 }), { freq: 5 }), { minLength: 3, maxLength: 3 }), {
      nil: undefined,
      freq: 2,
    }),
  }),
  ofKind('extend', 6, { which, ttlMs }),
  ofKind('release', 5, { which }),
  ofKind('add', 10, { name, delta }),
  ofKind('cart', 6, { changes: fc.array(change, { minLength: 1, maxLength: 4 }) }),
  ofKind('reset', 5, { name, to: fc.constantFrom(0, 0, 0, 3, 9, -4) }),
  ofKind('define', 5, { name, definition }),
  ofKind('delete', 1, { name }),
  ofKind('turn', 12, {
    // Of both nodes of the database, or one.
    nodes: fc.constantFrom([0, 1], [0, 1], [0], [1]),
    ms: fc.constantFrom(1, 999, 1000, 5000, 5000, 10_000, 60_000, HOUR_MS, -1, -5000, -10_000, -60_000),
  }),
  ofKind('wait', 2, { hours: fc.constantFrom(1, 4, 700) }),
)

type Operation = typeof operations extends fc.Arbitrary<infer Value> ? Value : never
type OperationOf<Kind> = Extract<Operation, { kind: Kind }>
type Changes = readonly { name: Name; delta: number }[]

function sumsOf(changes: Changes): Map<Name, number> {
  const sums = new Map<Name, number>()
  for (const { name, delta } of changes) sums.set(name, (sums.get(name) ?? 0) + delta)
  return sums
}

/** The bucket of a period in UTC. */
const bucketOf = (period: Period, at: number) => calendarOf('UTC').bucketAt(period, at)

function refusal(code: ErrorCode, details: ErrorDetails = {}): NthError {
  return new NthError(code, 'Expected', details)
}

interface ModelCounter {
  value: number
  definition: {
    minValue: number | null
    maxValue: number | null
    overflow: 'REJECT' | 'SATURATE'
    maxIn: readonly { period: Period; max: number }[]
  }
  totals: ReadonlyMap<string, number>
  /** The latest instant by which its holds were judged in a write. */
  heldAt: number
  parts: readonly Part[]
  isDeleted: boolean
}

interface Part {
  hold: ModelHold
  amount: number
  state: 'RESERVED' | 'CONFIRMED' | 'RELEASED'
  confirmed?: { wanted: number; answer: ModelChange }
}

interface ModelHold {
  token: string
  expiresAt: number
  latest: number
  /** The counters, in the order in which they were created, as the database lists them. */
  counters: Map<Name, ModelCounter>
}

interface ModelChange {
  name: Name
  value: number
  previousValue: number
  appliedDelta: number | null
}

const NEW: ModelCounter = {
  value: 0,
  definition: { minValue: null, maxValue: null, overflow: 'REJECT', maxIn: [] },
  totals: new Map(),
  heldAt: 0,
  parts: [],
  isDeleted: false,
}

/** Plain maps: what is held is summed up from all holds of a counter whenever it is needed. */
class Model {
  readonly counters = new Map<Name, ModelCounter>(NAMES.map((name) => [name, { ...NEW }]))
  readonly holds: ModelHold[] = []
  /** The database's clock of the node that is asked now. */
  now = START
  /** The clock of the processes. */
  at = START

  counter(name: Name): ModelCounter {
    const counter = this.counters.get(name)
    if (!counter) throw new Error('All are there')
    return counter
  }

  judgedAt({ heldAt }: ModelCounter): number {
    return Math.max(this.now, heldAt)
  }

  isOpen(counter: ModelCounter, part: Part): boolean {
    return part.state === 'RESERVED' && part.hold.expiresAt > this.judgedAt(counter)
  }

  heldOf(counter: ModelCounter): { up: number; down: number } {
    const amounts = counter.parts.filter((part) => this.isOpen(counter, part)).map(({ amount }) => amount)
    const sum = (side: number[]) => side.reduce((total, amount) => total + Math.abs(amount), 0)
    return { up: sum(amounts.filter((each) => each > 0)), down: sum(amounts.filter((each) => each < 0)) }
  }

  used(counter: ModelCounter, period: Period): number {
    return counter.totals.get(`${period} ${bucketOf(period, this.at).start}`) ?? 0
  }

  /** How much of an addition has room, and why not all of it. */
  room(counter: ModelCounter, delta: number): { fits: number; why?: ErrorDetails } {
    const { value, definition } = counter
    const { up, down } = this.heldOf(counter)
    const [min, max] = [definition.minValue ?? -Infinity, definition.maxValue ?? Infinity]
    if (delta < 0) {
      const fits = Math.max(delta, min + down - value)
      return { fits, ...(fits > delta && { why: { limit: min, value, ...(down > 0 && { held: down }) } }) }
    }
    const limits = definition.maxIn
      .map(({ period, max }) => ({ period, max, used: this.used(counter, period) }))
      .filter(({ max, used }) => delta > 0 && used + up + delta > max)
      .toSorted((a, b) => PERIODS.indexOf(a.period) - PERIODS.indexOf(b.period))
    const fits = Math.min(
      delta,
      max - up - value,
      ...limits.map(({ max, used }) => Math.max(0, max - used - up)),
    )
    const heldBack = up > 0 && { held: up }
    if (value + delta + up > max) return { fits, why: { limit: max, value, ...heldBack } }
    const endOf = ({ period }: { period: Period }) => bucketOf(period, this.at).end
    const [last] = limits.toSorted((a, b) => endOf(b) - endOf(a))
    if (!last) return { fits }
    const { period, max: limit, used } = last
    const resetsAt = new Date(endOf(last)).toISOString()
    return { fits, why: { limit, value, period, used, resetsAt, ...heldBack } }
  }

  add(name: Name, delta: number): ModelChange {
    const counter = this.counter(name)
    const { fits, why } = this.room(counter, delta)
    if (why && counter.definition.overflow === 'REJECT') throw refusal('LIMIT_REACHED', why)
    return this.count(name, fits)
  }

  count(name: Name, delta: number): ModelChange {
    const counter = this.counter(name)
    const previousValue = counter.value
    counter.value += delta
    const totals = new Map(counter.totals)
    for (const period of PERIODS)
      totals.set(`${period} ${bucketOf(period, this.at).start}`, this.used(counter, period) + delta)
    counter.totals = totals
    return { name, value: counter.value, previousValue, appliedDelta: delta }
  }

  /** All or none. */
  all<Answer>(body: () => Answer): Answer {
    const before = new Map([...this.counters].map(([name, counter]) => [name, { ...counter }]))
    const parts = [...this.counters.values()].flatMap((counter) =>
      counter.parts.map((part) => [part, { ...part }] as const),
    )
    try {
      return body()
    } catch (error) {
      for (const [name, counter] of before) Object.assign(this.counter(name), counter)
      for (const [part, copy] of parts) {
        Object.assign(part, copy)
        if (!copy.confirmed) delete part.confirmed
      }
      throw error
    }
  }

  cart(changes: Changes): ModelChange[] {
    const before = new Map(NAMES.map((name) => [name, this.counter(name).value]))
    return this.all(() =>
      changes.map(({ name, delta }, index) =>
        atIndex(() => this.add(name, delta), index, before.get(name) ?? 0),
      ),
    )
  }

  hold(operation: OperationOf<'hold'>): ModelHold {
    const { changes, ttlMs } = operation
    const sums = sumsOf(changes)
    const counters = new Map([...sums.keys()].map((name) => [name, this.counter(name)]))
    for (const [name, counter] of counters) {
      const { why } = this.room(counter, sums.get(name) ?? 0)
      const index = changes.findIndex((change) => change.name === name)
      if (why) throw refusal('LIMIT_REACHED', { ...why, index })
    }
    const madeAt = Math.max(...[...counters.values()].map((counter) => this.judgedAt(counter)))
    const hold = { token: '', expiresAt: madeAt + ttlMs, latest: madeAt + DAY_MS, counters }
    for (const [name, counter] of counters)
      counter.parts = [...counter.parts, { hold, amount: sums.get(name) ?? 0, state: 'RESERVED' }]
    this.holds.push(hold)
    return hold
  }

  partsOf(hold: ModelHold): { name: Name; counter: ModelCounter; part: Part }[] {
    return [...hold.counters].map(([name, counter]) => {
      const part = counter.parts.find((each) => each.hold === hold)
      if (!part) throw new Error('It has a part on each')
      return { name, counter, part }
    })
  }

  /** Undefined: all of its counters were deleted. */
  stateOf(hold: ModelHold): string | undefined {
    const states = this.partsOf(hold)
      .filter(({ counter }) => !counter.isDeleted)
      .map(({ counter, part }) =>
        part.state === 'RESERVED' && !this.isOpen(counter, part) ? 'EXPIRED' : part.state,
      )
    return states.includes('EXPIRED') ? 'EXPIRED' : states[0]
  }

  /** The parts of a hold none of whose counters was deleted. */
  wholeParts(hold: ModelHold) {
    const parts = this.partsOf(hold)
    if (parts.some(({ counter }) => counter.isDeleted)) throw refusal('NOT_FOUND')
    return parts
  }

  confirm(hold: ModelHold, names: readonly Name[], changes: Changes | undefined): ModelChange[] {
    const parts = this.wholeParts(hold).toSorted((a, b) => names.indexOf(a.name) - names.indexOf(b.name))
    return this.all(() =>
      parts.map(({ name, counter, part }, place) => {
        const wanted = changes ? (changes.find((change) => change.name === name)?.delta ?? 0) : part.amount
        if (part.confirmed?.wanted === wanted) return part.confirmed.answer
        if (part.state !== 'RESERVED') throw refusal('RESERVATION_CLOSED', { state: part.state })
        const index = changes ? changes.findIndex((change) => change.name === name) : place
        const { value } = counter
        const wasOpen = this.isOpen(counter, part)
        part.state = 'CONFIRMED'
        const answer =
          wasOpen && Math.abs(wanted) <= Math.abs(part.amount)
            ? this.count(name, wanted)
            : wasOpen
              ? atIndex(() => this.add(name, wanted), index, value)
              : this.late(name, wanted)
        part.confirmed = { wanted, answer }
        return answer
      }),
    )
  }

  late(name: Name, wanted: number): ModelChange {
    const counter = this.counter(name)
    const { fits, why } = this.room(counter, wanted)
    if (!why || (counter.definition.overflow === 'SATURATE' && fits !== 0)) return this.count(name, fits)
    const { limit, used = counter.value, held = 0 } = why as ErrorDetails & { limit: number }
    const left = Math.max(0, Math.abs(limit - used) - held)
    throw refusal('RESERVATION_CLOSED', { ...why, left, state: 'EXPIRED' })
  }

  extend(hold: ModelHold, ttlMs: number): ModelHold {
    const parts = this.wholeParts(hold)
    for (const { counter, part } of parts) {
      if (part.state !== 'RESERVED') throw refusal('RESERVATION_CLOSED', { state: part.state })
      if (!this.isOpen(counter, part)) throw refusal('RESERVATION_CLOSED', { state: 'EXPIRED' })
    }
    const at = Math.max(...parts.map(({ counter }) => this.judgedAt(counter)))
    hold.expiresAt = Math.min(at + ttlMs, hold.latest)
    return hold
  }

  release(hold: ModelHold): ModelHold {
    const parts = this.partsOf(hold).filter(({ counter }) => !counter.isDeleted)
    if (parts.length === 0) throw refusal('NOT_FOUND')
    if (parts.some(({ part }) => part.state === 'CONFIRMED'))
      throw refusal('RESERVATION_CLOSED', { state: 'CONFIRMED' })
    for (const { part } of parts) part.state = 'RELEASED'
    return hold
  }

  /** Refuses a value outside of bounds. */
  assertWithin(
    value: number,
    counter: ModelCounter,
    bounds: { minValue: number | null; maxValue: number | null },
    argument?: string,
  ): void {
    const { up, down } = this.heldOf(counter)
    const isAbove = bounds.maxValue !== null && value + up > bounds.maxValue
    if (!isAbove && (bounds.minValue === null || value - down >= bounds.minValue)) return
    const [limit, held] = isAbove ? [bounds.maxValue, up] : [bounds.minValue, down]
    throw refusal('LIMIT_REACHED', {
      ...(limit !== null && { limit }),
      value: counter.value,
      ...(held > 0 && { held }),
      ...(argument && { argument: `${argument}.${isAbove ? 'maxValue' : 'minValue'}` }),
    })
  }

  reset(name: Name, to: number): ModelChange {
    const counter = this.counter(name)
    const { value: previousValue } = counter
    this.assertWithin(to, counter, counter.definition)
    counter.value = to
    return { name, value: to, previousValue, appliedDelta: null }
  }

  define(name: Name, change: OperationOf<'define'>['definition']): void {
    const counter = this.counter(name)
    const definition = { ...counter.definition, ...change }
    this.assertWithin(counter.value, counter, definition, 'definition')
    counter.definition = definition
  }

  delete(name: Name): void {
    this.counter(name).isDeleted = true
    this.counters.set(name, { ...NEW })
  }
}

/** What refuses one change of several says which, and the value before all. */
function atIndex<Answer>(body: () => Answer, index: number, value: number): Answer {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof NthError)) throw error
    throw refusal(error.code, { ...error.details, index, value })
  }
}

/** An answer, of the model or of Nth, or with what a call was refused. */
async function outcomeOf<Answer, Shown>(
  call: () => Answer | Promise<Answer>,
  show: (answer: Answer) => Shown,
) {
  try {
    return show(await call())
  } catch (error) {
    if (!(error instanceof NthError)) throw error
    return { code: error.code, ...error.details }
  }
}

function shownChange({ key, value, previousValue, appliedDelta, isReplayed }: CounterChange) {
  return { name: key.name, value, previousValue, appliedDelta, isReplayed }
}

const shownHold = ({ token, state, expiresAt }: Hold) => ({ token, state, expiresAt })

/** What the rows of counters have, beside the sums of their holds. */
async function storedRows(query: (text: string) => Promise<RowDataPacket[]>, namespace: string) {
  const rows = await query(
    `select c.id, c.name, v.value, v.revision, v.held_up, v.held_down, v.held_at, v.first_expiry,
            coalesce(sum(greatest(h.amount, 0)), 0) as sum_up, coalesce(-sum(least(h.amount, 0)), 0) as sum_down,
            min(h.open_until) as next
       from namespace n
       join counter c on c.namespace_id = n.id
       join counter_value v on v.counter_id = c.id and v.slot = 0
       left join hold h on h.counter_id = c.id and h.open_until > v.held_at
      where n.name = '${namespace}'
      group by c.id`,
  )
  return rows.map(({ name, ...row }) => {
    const numbers = Object.entries(row).map(([column, value]) => [
      column,
      value === null ? null : Number(value),
    ])
    // The columns are those of the statement.
    return { name: String(name) as Name, ...(Object.fromEntries(numbers) as StoredRow) }
  })
}

type StoredRow = Record<
  'id' | 'value' | 'revision' | 'held_up' | 'held_down' | 'held_at' | 'sum_up' | 'sum_down',
  number
> & { first_expiry: number | null; next: number | null }

it(`holds: agree with plain maps over ${RUNS} random runs, through two processes, whose databases have clocks of their own`, async () => {
  const seen = new Map<string, number>()
  const nodes = await openNodes()
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ operation: operations, node: fc.nat({ max: 1 }) }), {
        minLength: 1,
        maxLength: 2 * STEPS,
        size: 'max',
      }),
      async (steps) => {
        const run = await openRun(nodes)
        for (const [index, { operation, node }] of steps.entries()) {
          const what = await run.step(operation, node).catch((error) => {
            error.message = `Step ${index}, ${JSON.stringify({ node, ...operation })}: ${error.message}`
            throw error
          })
          seen.set(what, (seen.get(what) ?? 0) + 1)
        }
      },
    ),
    // A run has a namespace of its own, so it can be repeated and shrunk; that takes minutes: set it to false.
    { numRuns: RUNS, endOnFailure: true },
  )
  const rare = [
    ...['hold', 'hold LIMIT_REACHED', 'confirm', 'confirm LIMIT_REACHED', 'confirm late'],
    ...['confirm too late', 'confirm CONFIRMED', 'confirm RELEASED'],
    ...['confirm again', 'confirm NOT_FOUND', 'extend', 'extend EXPIRED', 'release', 'release CONFIRMED'],
    ...['add', 'add LIMIT_REACHED', 'cart LIMIT_REACHED', 'reset LIMIT_REACHED', 'define LIMIT_REACHED'],
  ]
  if (meetsRareCases()) for (const what of rare) expect([what, seen.has(what)]).toEqual([what, true])
})

/** Two processes, each with a database's clock of its own, and a connection beside them. */
async function openNodes() {
  const database = await freshDatabase()
  const watcher = await createConnection(database)
  onTestFinished(() => watcher.end())
  const processClock = turnedClock(new Date(START).toISOString())
  const clocks = sessionClocks(2, START)
  const nodes = clocks.map((clock) => openTestNth(clock.of(database), processClock))
  return {
    processClock,
    query: async (text: string) => (await watcher.query<RowDataPacket[]>(text))[0],
    nodeAt: (index: number): Nth => nodes[index] ?? expect.fail('There are two'),
    clockAt: (index: number): SessionClock => clocks[index] ?? expect.fail('There are two'),
  }
}

/** How many runs there were: each has a namespace of its own. */
let runs = 0

async function openRun({ processClock, query, nodeAt, clockAt }: Awaited<ReturnType<typeof openNodes>>) {
  const namespace = `n${runs++}`
  const keyOf = (name: Name) => ({ namespace, name })
  const model = new Model()
  const rows = new Map<number, StoredRow>()
  let steps = 0
  processClock.at = START
  for (const index of [0, 1]) clockAt(index).at = START

  const definitions: [Name, OperationOf<'define'>['definition']][] = [
    ['a', { maxValue: 10 }],
    ['b', { minValue: 0, maxValue: 12, overflow: 'SATURATE' }],
    ['c', { minValue: -6, maxIn: [{ period: 'DAY', max: 12 }] }],
  ]
  for (const [name, definition] of definitions) {
    model.define(name, definition)
    await nodeAt(0).counters.define(keyOf(name), definition)
  }

  /** Compares an answer with the model's, and returns which kind it is. */
  async function compare<Answer, Expected>(
    call: () => Promise<Answer>,
    show: (answer: Answer) => unknown,
    body: () => Expected,
    showExpected: (expected: Expected) => unknown,
  ): Promise<string> {
    const expected = await outcomeOf(body, showExpected)
    const answer = await outcomeOf(call, show)
    expect(answer).toEqual(expected)
    const { code, state, left } = { ...(expected as Record<string, unknown>) }
    if (left !== undefined) return 'too late'
    return code === 'RESERVATION_CLOSED' ? String(state) : String(code ?? '')
  }

  const expectedHold = (hold: ModelHold) => {
    const state = model.stateOf(hold)
    if (state === undefined) throw refusal('NOT_FOUND')
    return { token: hold.token, state, expiresAt: hold.expiresAt }
  }

  async function apply(operation: Operation, node: number): Promise<string> {
    const { counters, holds } = nodeAt(node)
    const { kind } = operation
    switch (kind) {
      case 'turn':
        for (const index of operation.nodes) clockAt(index).at += operation.ms
        return ''
      case 'wait':
        model.at += operation.hours * HOUR_MS
        processClock.at = model.at
        return ''
      case 'add':
      case 'cart':
        return compare(
          async () =>
            kind === 'add'
              ? [await counters.incrementBy(keyOf(operation.name), operation.delta)]
              : counters.incrementMany(namespace, operation.changes),
          (changes) => changes.map(shownChange),
          () =>
            kind === 'add' ? [model.add(operation.name, operation.delta)] : model.cart(operation.changes),
          (changes) => changes.map((change) => ({ ...change, isReplayed: false })),
        )
      case 'reset':
        return compare(
          () => counters.reset(keyOf(operation.name), operation.to),
          shownChange,
          () => model.reset(operation.name, operation.to),
          (change) => ({ ...change, isReplayed: false }),
        )
      case 'define':
        return compare(
          () => counters.define(keyOf(operation.name), operation.definition),
          () => undefined,
          () => model.define(operation.name, operation.definition),
          () => undefined,
        )
      case 'delete':
        await counters.delete(keyOf(operation.name))
        model.delete(operation.name)
        return ''
      case 'hold': {
        const hold = () => holds.hold(namespace, operation.changes, times(operation.ttlMs))
        // A process that does not know yet that a counter was deleted has not marked its new row.
        const retried = () =>
          hold().catch((error) => {
            if (error.code !== 'UNAVAILABLE') throw error
            expect(error.message).toContain('was deleted in the meantime')
            return hold()
          })
        let made: ModelHold | undefined
        return compare(
          retried,
          ({ token, state, expiresAt }) => {
            if (made) made.token = token
            return { state, expiresAt }
          },
          () => {
            made = model.hold(operation)
            return made
          },
          (expected) => ({ state: 'RESERVED', expiresAt: expected.expiresAt }),
        )
      }
      default:
        return applyToHold(operation, node)
    }
  }

  async function applyToHold(
    operation: OperationOf<'confirm' | 'extend' | 'release'>,
    node: number,
  ): Promise<string> {
    const { holds } = nodeAt(node)
    const target = model.holds.at(-1 - operation.which)
    if (!target) return 'without a hold'
    const hold = await holds.find(target.token)
    if (model.stateOf(target) === undefined) {
      expect(hold).toBeUndefined()
      return 'of deleted counters'
    }
    if (!hold) return expect.fail('It exists')
    expect(shownHold(hold)).toEqual(expectedHold(target))
    switch (operation.kind) {
      case 'extend':
        return compare(
          () => holds.extend(hold, operation.ttlMs),
          shownHold,
          () => model.extend(target, operation.ttlMs),
          expectedHold,
        )
      case 'release':
        return compare(
          () => holds.release(hold),
          shownHold,
          () => model.release(target),
          ({ token, expiresAt }) => ({ token, expiresAt, state: 'RELEASED' }),
        )
      case 'confirm': {
        const { amounts } = operation
        const isLate = model.stateOf(target) === 'EXPIRED'
        const isAgain = model.partsOf(target).every(({ part }) => part.confirmed)
        // The names are those of the model.
        const names = hold.deltas.flatMap(({ key }) => (key ? [key.name as Name] : []))
        const changes =
          amounts &&
          hold.deltas.flatMap(({ key, delta }, index) => {
            const amount = amounts[index] ?? null
            return key && amount !== null
              ? [{ name: key.name as Name, delta: delta > 0 ? amount : 0 - amount }]
              : []
          })
        const what = await compare(
          () => holds.confirm(hold, changes),
          (made) => made.map(shownChange),
          () => model.confirm(target, names, changes),
          (made) => made.map((change) => ({ ...change, isReplayed: isAgain })),
        )
        return what || (isAgain ? 'again' : isLate ? 'late' : '')
      }
    }
  }

  /** Compares what is stored, and what each node reads. */
  async function check(node: number): Promise<void> {
    for (const row of await storedRows(query, namespace)) {
      const counter = model.counter(row.name)
      const { minValue, maxValue } = counter.definition
      expect([row.held_up, row.held_down]).toEqual([row.sum_up, row.sum_down])
      expect(row.value).toBe(counter.value)
      // Whatever the clock of a node is, or becomes.
      expect(row.value + row.held_up).toBeLessThanOrEqual(maxValue ?? Infinity)
      expect(row.value - row.held_down).toBeGreaterThanOrEqual(minValue ?? -Infinity)
      if (row.next !== null) expect(row.first_expiry ?? Infinity).toBeLessThanOrEqual(row.next)
      const before = rows.get(row.id)
      expect(row.revision).toBeGreaterThanOrEqual(before?.revision ?? 0)
      if (row.held_at !== counter.heldAt) expect(row.held_at).toBe(model.judgedAt(counter))
      expect(row.held_at).toBeGreaterThanOrEqual(counter.heldAt)
      // An addition of 0 may be the first to find that holds have expired.
      const isSettled = row.held_at !== before?.held_at
      if (before && !isSettled && (row.held_up !== before.held_up || row.held_down !== before.held_down))
        expect(row.revision).toBeGreaterThan(before.revision)
      counter.heldAt = row.held_at
      rows.set(row.id, row)
    }
    for (const index of [node, 1 - node]) {
      model.now = clockAt(index).at
      const { counters, holds } = nodeAt(index)
      const states = await Promise.all(NAMES.map((name) => counters.read(keyOf(name))))
      const read = states.map(({ value, held, heldDown }) => ({ value, held, heldDown }))
      const expected = NAMES.map((name) => {
        const { up, down } = model.heldOf(model.counter(name))
        return { value: model.counter(name).value, held: up, heldDown: down }
      })
      expect(read).toEqual(expected)
      // The rest of one counter, in turn.
      const name = NAMES[steps % NAMES.length] ?? 'a'
      const period = PERIODS[Math.floor(steps / NAMES.length) % PERIODS.length] ?? 'DAY'
      const counter = model.counter(name)
      const state = states.find((each) => each.name === name) ?? expect.fail('It was read')
      expect(await counters.valueIn(state, period)).toBe(model.used(counter, period))
      const places = counter.parts
        .filter((part) => model.isOpen(counter, part))
        .map(({ hold: { token, expiresAt }, amount }) => ({ token, amount, expiresAt }))
      const open = places.toSorted(
        (a, b) => a.expiresAt - b.expiresAt || a.amount - b.amount || (a.token < b.token ? -1 : 1),
      )
      expect(await holds.list(keyOf(name), { limit: 100, fromEnd: false })).toEqual(open)
      const latest = model.holds.at(-1)
      const found = latest && (await holds.find(latest.token))
      expect(found && shownHold(found)).toEqual(latest && model.stateOf(latest) && expectedHold(latest))
    }
  }

  return {
    async step(operation: Operation, node: number): Promise<string> {
      model.now = clockAt(node).at
      const what = `${operation.kind} ${await apply(operation, node)}`.trim()
      steps++
      model.now = clockAt(node).at
      await check(node)
      return what
    },
  }
}

const seat = { namespace: 'shop', name: 'seat' }
const one = [{ name: 'seat', delta: 1 }]
const seats = [{ name: 'seat', delta: 3 }]
const times = (ttlMs: number) => ({ ttlMs, longestMs: DAY_MS })

it.each<[string, (nth: Nth, other: Hold) => Promise<unknown>]>([
  ['an addition', ({ counters }) => counters.incrementBy(seat, 3)],
  ['a cart', ({ counters }) => counters.incrementMany('shop', seats)],
  ['another hold', ({ holds }) => holds.hold('shop', seats, times(60_000))],
  ['a reset', ({ counters }) => counters.reset(seat, 3)],
  ['a lower bound', ({ counters }) => counters.define(seat, { maxValue: 0 })],
  ['a late confirmation', ({ holds }, other) => holds.confirm(other, seats)],
])('holds: do not open again whose room %s took, where the clock is put back by 10 s', async (_, take) => {
  const { nodeAt, clockAt } = await openNodes()
  const { counters, holds } = nodeAt(0)
  await counters.define(seat, { maxValue: 3 })
  const other = await holds.hold('shop', one, times(1000))
  clockAt(0).at += 1000
  // Of the other counter nobody takes anything, so that its part alone would be open again.
  const hold = await holds.hold('shop', [...seats, { name: 'aisle', delta: 1 }], times(5000))
  clockAt(0).at += 5000
  await take(nodeAt(0), other)
  const before = await counters.read(seat)
  clockAt(0).at -= 10_000
  const { value, held, heldDown, definition } = await counters.read(seat)
  expect({ value, held, heldDown }).toEqual({ value: before.value, held: before.held, heldDown: 0 })
  expect(value + held).toBe(definition?.maxValue)
  expect(await holds.read(hold.token)).toMatchObject({ state: 'EXPIRED' })
  await expect(holds.extend(hold, 60_000)).rejects.toMatchObject({ details: { state: 'EXPIRED' } })
  await expect(holds.confirm(hold)).rejects.toMatchObject({
    code: 'RESERVATION_CLOSED',
    details: { state: 'EXPIRED', left: 0 },
  })
  await expect(holds.hold('shop', one, times(1000))).rejects.toMatchObject({ code: 'LIMIT_REACHED' })
})

it.each([
  ['behind', 1, 1000],
  ['ahead', 0, 6000],
])('hold: sells a room once where the clock of its node is 5 s %s', async (_, maker, until) => {
  const { nodeAt, clockAt } = await openNodes()
  clockAt(0).at += 5000
  const [making, selling, behind] = [nodeAt(maker), nodeAt(0), nodeAt(1)]
  await making.counters.define(seat, { maxValue: 3 })
  const hold = await making.holds.hold('shop', seats, times(6000))
  expect((await selling.counters.read(seat)).held).toBe(3)
  await expect(selling.counters.incrementBy(seat, 1)).rejects.toMatchObject({ details: { held: 3 } })
  for (const index of [0, 1]) clockAt(index).at += until
  expect(clockAt(0).at).toBe(hold.expiresAt)
  expect((await behind.counters.read(seat)).held).toBe(3)
  await selling.counters.incrementBy(seat, 3)
  for (const { counters, holds } of [behind, selling]) {
    expect(await counters.read(seat)).toMatchObject({ value: 3, held: 0 })
    expect(await holds.read(hold.token)).toMatchObject({ state: 'EXPIRED' })
    await expect(holds.confirm(hold)).rejects.toMatchObject({ details: { state: 'EXPIRED', left: 0 } })
  }
})

it('hold: sells each seat once to callers of two nodes whose clocks are 5 s apart, and turned meanwhile', async () => {
  const { nodeAt, clockAt, query } = await openNodes()
  const random = createRandom()
  clockAt(1).at -= 5000
  await nodeAt(0).counters.define(seat, { maxValue: 40 })
  const numbers: number[] = []
  const attempt = async (call: Promise<readonly CounterChange[]>) => {
    const changes = await call.catch((error: NthError) => {
      if (error.code !== 'LIMIT_REACHED' && error.code !== 'RESERVATION_CLOSED') throw error
      return []
    })
    numbers.push(...changes.map(({ value }) => value))
  }
  const buy = async (caller: number) => {
    const { holds } = nodeAt(caller % 2)
    const hold = await holds.hold('shop', one, times(2000)).catch((error: NthError) => {
      if (error.code !== 'LIMIT_REACHED') throw error
    })
    const turned = clockAt(Number(random.fraction() < 0.5))
    turned.at += random.fraction() < 0.6 ? 1000 : -1000
    // Whoever pays may do so at the other node.
    if (hold && random.fraction() < 0.7)
      await attempt(nodeAt(Number(random.fraction() < 0.5)).holds.confirm(hold))
    const [row] = await query(
      `select value, held_up, held_up = (select coalesce(sum(amount), 0) from hold where open_until > held_at) as is_sum
         from counter_value`,
    )
    expect(Number(row?.value) + Number(row?.held_up)).toBeLessThanOrEqual(40)
    expect(row?.is_sum).toBe(1)
  }
  const callers = upTo(runSize(120, 400))
  await Promise.all(
    upTo(8).map(async (lane) => {
      for (const caller of callers.filter((each) => each % 8 === lane % 8)) await buy(caller + (lane >> 2))
    }),
  )
  const { value } = await nodeAt(0).counters.read(seat)
  expect(sorted(numbers)).toEqual(upTo(value))
  expect(value).toBeLessThanOrEqual(40)
})
