import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../support/mulberry32.ts'
import { mulberry32 } from '../support/mulberry32.ts'
import { type Caller, createCaller, type Surroundings } from './caller.ts'

/** Callers of all kinds at once. */
export interface Load {
  /** Ends it, when all have their last answer. */
  end(): Promise<void>
}

/** What a caller does once. */
type Work = (caller: Caller) => Promise<unknown>

/** Starts callers, each of which calls again as soon as it has its answer; and one more, who changes definitions. */
export async function startLoad(surroundings: Surroundings, callers: number, random: Random): Promise<Load> {
  let isOver = false

  async function work(index: number, once: Work): Promise<void> {
    const caller = createCaller(surroundings, index, mulberry32(random.below(2 ** 31)))
    while (!isOver) await once(caller)
  }

  const first = createCaller(surroundings, callers, random)
  await first.insist({ kind: 'defineSequence', name: INVOICES, definition: { gapless: true } })
  // Callers of the same place in this list do the same, half of them at each server.
  const working = Array.from({ length: callers }, (_, index) =>
    work(index, WORKS[Math.floor(index / 2) % WORKS.length] ?? countHot),
  )
  working.push(work(callers, changeDefinition))
  const all = Promise.all(working)
  // It is awaited at the end.
  all.catch(() => undefined)

  return {
    async end() {
      isOver = true
      await all
    },
  }
}

/**
 * Most names are used for so long only: where numbers are not the order, calls of one name are checked by a search, which
 * gives up where there are too many. Counters that only count up by one are used all the time.
 */
const EPISODE_MS = 20_000

function ofEpisode(name: string): string {
  return `${name} ${Math.floor(performance.now() / EPISODE_MS)}`
}

const COUNTERS = 200

/** The one counter that most callers change. */
function countHot({ call }: Caller) {
  return call({ kind: 'increment', name: 'hot' })
}

function countMany({ call, random }: Caller) {
  return call({ kind: 'increment', name: `many ${random.below(COUNTERS)}` })
}

/** Reads at one server what is changed at both. */
function read({ call, random }: Caller) {
  return call({ kind: 'counters', names: ['hot', `many ${random.below(COUNTERS)}`, ofEpisode('bounded')] })
}

function countSeveral({ call, random }: Caller) {
  return call({
    kind: 'incrementBy',
    name: ofEpisode(`several ${random.below(8)}`),
    delta: 1 + random.below(3),
  })
}

/** A counter with a highest value, which is changed again and again. */
async function countBounded({ call }: Caller) {
  const { kind } = await call({ kind: 'increment', name: ofEpisode('bounded') })
  if (kind === 'refused') await pause(20)
}

/** Numbers of a sequence in groups, whose format is changed again and again. */
function takeTickets({ call, random }: Caller) {
  const place = { name: ofEpisode('tickets'), group: `board ${random.below(8)}` }
  if (random.below(8) === 0) return call({ kind: 'sequenceGroup', ...place })
  return call({ kind: 'nextInSequence', ...place, count: 1 + random.below(4) })
}

/** Calls with a key, sent to one server after the other until there is an answer, and at times once more. */
async function countKeyed({ insist, random }: Caller) {
  const keyed = { name: ofEpisode('keyed'), idempotencyKey: randomUUID() }
  const operation =
    random.below(2) === 0
      ? ({ kind: 'increment', ...keyed } as const)
      : ({ kind: 'nextInSequence', ...keyed, group: 'g' } as const)
  await insist(operation, random.below(2) === 0)
  if (random.below(4) === 0) await insist(operation, random.below(2) === 0)
}

/** A person counts once, however often they call, and at times takes it back. */
function vote({ call, insist, random }: Caller) {
  const vote = { name: ofEpisode('votes'), subject: `person ${random.below(40)}` }
  return random.below(6) === 0 ? call({ kind: 'uncount', ...vote }) : insist({ kind: 'increment', ...vote })
}

/** Carts of the same counters in any order, which are changed together. */
function fillCart({ call, insist, random }: Caller) {
  const isKeyed = random.below(2) === 0
  const names = random.sample(['a', 'b', 'c'], 2 + random.below(2))
  const changes = names.map((name) => ({
    name: ofEpisode(`${isKeyed ? 'keyed ' : ''}cart ${name}`),
    delta: 1,
  }))
  const cart = { kind: 'incrementMany', changes } as const
  return isKeyed ? insist({ ...cart, idempotencyKey: randomUUID() }) : call(cart)
}

export const INVOICES = 'invoices'

/** Reserves a number of a gapless sequence, and confirms it, releases it or leaves it to expire. */
async function numberInvoice({ call, insist, random }: Caller) {
  const group = ofEpisode(`shop ${random.below(8)}`)
  const reserved = await call({ kind: 'reserveInSequence', name: INVOICES, group, ttlSeconds: 5 })
  const [{ id } = {}] = reserved.kind === 'answered' ? [reserved.answer ?? {}].flat() : []
  const draw = random.fraction()
  if (id === undefined || draw > 0.8) return
  const kind = draw < 0.6 ? 'confirmReservation' : 'releaseReservation'
  await insist({ kind, id }, random.below(2) === 0)
}

const WORKS: readonly Work[] = [
  countHot,
  countMany,
  takeTickets,
  countKeyed,
  numberInvoice,
  fillCart,
  vote,
  read,
  countHot,
  countMany,
  takeTickets,
  countKeyed,
  countSeveral,
  fillCart,
  countHot,
  countBounded,
]

const PAUSE_MS = 300

/** Changes one definition through one of the servers, and waits a little. There is only one caller who does. */
async function changeDefinition({ insist, random }: Caller): Promise<void> {
  const isOther = random.below(2) === 0
  const maxValue = random.below(400)
  if (random.below(2) === 0)
    await insist({ kind: 'defineCounter', name: ofEpisode('bounded'), definition: { maxValue } }, isOther)
  else {
    const definition = { format: `v${maxValue} {group}-{value:3}`, allowRepeats: true }
    await insist({ kind: 'defineSequence', name: ofEpisode('tickets'), definition }, isOther)
  }
  await pause(PAUSE_MS)
}
