import { setTimeout as pause } from 'node:timers/promises'
import type { Client } from '../support/client/client.ts'
import type { Random } from '../support/mulberry32.ts'
import type { ApiOperation, CallOutcome } from './history.ts'
import type { Recorder } from './recorder.ts'

type Delta = { name: string; delta: number }

/**
 * Holds, confirms, extends and releases beside other changes of the same counters, until `isOver`. Whatever kills servers or
 * their database meanwhile, a caller repeats what is about a hold until it is answered, or abandons the hold.
 *
 * @param clientOf the server that a call of a caller goes to
 */
export async function recordHolds(
  recorder: Recorder,
  clientOf: (attempt: number) => Promise<Client>,
  { callers, random, isOver }: { callers: number; random: Random; isOver: () => boolean },
): Promise<void> {
  let calls = 0

  function call(caller: number, operation: ApiOperation): Promise<CallOutcome> {
    const client = clientOf(++calls)
    return recorder.call(caller, async (query) => (await client).send(query), operation)
  }

  async function insist(caller: number, operation: ApiOperation): Promise<CallOutcome> {
    for (;;) {
      const outcome = await call(caller, operation)
      const isKnown =
        outcome.kind === 'answered' || (outcome.kind === 'refused' && !NOT_NOW.includes(outcome.code))
      if (isKnown) return outcome
      // As clients do.
      await pause(50)
    }
  }

  async function hold(caller: number, changes: readonly Delta[]): Promise<void> {
    // Some expire while the servers or the database are away, or before they are confirmed.
    const ttlSeconds = random.below(8) === 0 ? 1 : 300
    const idempotencyKey = `${caller} ${calls}`
    const held = await insist(caller, { kind: 'hold', changes, ttlSeconds, idempotencyKey })
    const id = held.kind === 'answered' ? [held.answer].flat()[0]?.id : undefined
    if (id === undefined) return
    for (let work = random.below(3); work > 0; work--) await other(caller)
    const fate = random.below(10)
    if (ttlSeconds === 1 && fate < 3) return
    if (fate < 4) await insist(caller, { kind: 'extendHold', id, ttlSeconds: ttlSeconds + random.below(2) })
    if (fate < 6) await insist(caller, { kind: 'confirmHold', id })
    else if (fate < 8) {
      const other = changes.map(({ name, delta }) => ({
        name,
        delta: Math.sign(delta) * random.below(Math.abs(delta) + 3),
      }))
      await insist(caller, { kind: 'confirmHold', id, changes: other })
    }
    // Also after its confirmation, which is refused, and where a confirmation was refused.
    await insist(caller, { kind: 'releaseHold', id })
  }

  const seats = () => ({ name: 'seats', delta: 1 + random.below(3) })
  const credits = () => ({ name: 'credits', delta: -1 - random.below(20) })

  async function other(caller: number): Promise<unknown> {
    const idempotencyKey = `${caller} ${calls}`
    const works: ApiOperation[] = [
      { kind: 'counters', names: ['credits', 'seats'] },
      { kind: 'incrementBy', name: 'seats', delta: 1, idempotencyKey },
      { kind: 'incrementBy', name: 'seats', delta: -1 - random.below(3), idempotencyKey },
      { kind: 'incrementBy', name: 'credits', delta: 5 + random.below(20), idempotencyKey },
      { kind: 'incrementBy', name: 'credits', delta: -random.below(10), idempotencyKey },
      { kind: 'incrementMany', changes: [credits(), seats()], idempotencyKey },
      { kind: 'reset', name: 'seats', to: random.below(20), idempotencyKey },
      { kind: 'defineCounter', name: 'seats', definition: { maxValue: 20 + random.below(10) } },
    ]
    return insist(caller, works[random.below(works.length)] ?? { kind: 'counters', names: ['seats'] })
  }

  // In the order of their names, in which confirmations return them.
  for (const [name, definition] of [
    ['credits', { minValue: 0 }],
    ['seats', { maxValue: 20 }],
  ] as const)
    await insist(0, { kind: 'defineCounter', name, definition })
  await insist(0, { kind: 'incrementBy', name: 'credits', delta: 100, idempotencyKey: 'first credits' })
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      while (!isOver()) {
        const luck = random.below(8)
        if (luck === 0) await hold(caller, [credits(), seats()])
        else if (luck < 3) await hold(caller, [credits()])
        else if (luck < 6) await hold(caller, [seats()])
        else await other(caller)
      }
    }),
  )
}

/** Codes with which nothing was applied, and which say nothing about the state. */
const NOT_NOW = ['UNAVAILABLE', 'OVERLOADED', 'ECONNREFUSED']
