import type { Random } from '../support/mulberry32.ts'
import { mulberry32 } from '../support/mulberry32.ts'
import { type Caller, createCaller, type Surroundings } from './caller.ts'
import { countBounded } from './callers/bounded.ts'
import { fillCart } from './callers/carts.ts'
import { countHot, countMany } from './callers/counting.ts'
import { changeDefinition, createDefinitions, defineFirst } from './callers/definitions.ts'
import { type Confirmed, numberInvoice } from './callers/invoices.ts'
import { countKeyed } from './callers/keyed.ts'
import { takeTickets } from './callers/tickets.ts'

/** Callers of all kinds at once. */
export interface Load {
  confirmed: Confirmed
  /** Ends it, when all have their last answer. */
  end(): Promise<void>
}

/** Starts callers, each of which calls again as soon as it has its answer; and one more, who changes definitions. */
export async function startLoad(surroundings: Surroundings, callers: number, random: Random): Promise<Load> {
  const confirmed: Confirmed = new Map()
  const definitions = createDefinitions()
  let isOver = false
  const newCaller = (index: number) => createCaller(surroundings, index, mulberry32(random.below(2 ** 31)))

  /** Callers of the same place in this list do the same, half of them at each server. */
  const works: ((caller: Caller) => Promise<void>)[] = [
    countHot,
    countMany,
    (caller) => takeTickets(caller, definitions),
    countKeyed,
    (caller) => numberInvoice(caller, confirmed),
    fillCart,
    countHot,
    countMany,
    (caller) => takeTickets(caller, definitions),
    countKeyed,
    (caller) => numberInvoice(caller, confirmed),
    fillCart,
    countHot,
    countMany,
    (caller) => takeTickets(caller, definitions),
    (caller) => countBounded(caller, definitions),
  ]

  async function work(caller: Caller, once: (caller: Caller) => Promise<void>): Promise<void> {
    while (!isOver) await once(caller)
  }

  await defineFirst(newCaller(0), definitions)
  const working = Array.from({ length: callers }, (_, index) => {
    const once = works[Math.floor(index / 2) % works.length]
    return once && work(newCaller(index), once)
  })
  working.push(work(newCaller(0), (caller) => changeDefinition(caller, definitions)))
  const all = Promise.all(working)
  // It is awaited at the end.
  all.catch(() => undefined)

  return {
    confirmed,
    async end() {
      isOver = true
      await all
    },
  }
}
