import type { Client } from '../support/client/client.ts'
import type { Random } from '../support/mulberry32.ts'
import type { ApiOperation, CallOutcome, CallRecord } from './history.ts'
import { createRecorder } from './recorder.ts'

/** Counters without lost calls. */
const SAFE = ['hot', 'by', 'bounded', 'votes', 'short']

/**
 * Records what several callers of servers with one database are answered. Some answers are lost, and some calls on their
 * way to a server, and callers don't know which.
 */
export async function recordHistory(
  clients: readonly [Client, ...Client[]],
  { callers, calls, random }: { callers: number; calls: number; random: Random },
): Promise<CallRecord[]> {
  const recorder = createRecorder()
  const [first] = clients
  let left = calls

  async function call(caller: number, operation: ApiOperation): Promise<CallOutcome> {
    const client = clients[caller % clients.length] ?? first
    // Nobody knows whether a lost call took a number, so some counters have none.
    const mayBeLost =
      !('name' in operation && SAFE.includes(operation.name)) && operation.kind !== 'incrementMany'
    const luck = mayBeLost ? random.below(100) : 100
    return recorder.call(
      caller,
      async (query) => {
        if (luck === 0) throw new Error('Its request is lost')
        const answer = await client.send(query)
        if (luck === 1) throw new Error('Its answer is lost')
        return answer
      },
      operation,
    )
  }

  /** Repeats a call with a key until its outcome is known. */
  async function insist(caller: number, operation: ApiOperation): Promise<void> {
    while ((await call(caller, operation)).kind === 'unknown');
  }

  /** What a reset expects: nothing, or a value that may be there. */
  function expected(): number | undefined {
    return random.below(2) === 0 ? undefined : random.below(12)
  }

  async function work(caller: number): Promise<void> {
    const idempotencyKey = `${caller} ${left}`
    const subject = `subject ${random.below(30)}`
    const carts = random.sample(['cart a', 'cart b', 'cart c'], 1 + random.below(3))
    const works: (() => Promise<unknown>)[] = [
      () => call(caller, { kind: 'increment', name: 'hot' }),
      () => call(caller, { kind: 'increment', name: 'hot' }),
      () => call(caller, { kind: 'counters', names: ['hot', 'by', 'cart a'] }),
      () => call(caller, { kind: 'incrementBy', name: 'by', delta: 1 + random.below(3) }),
      () => insist(caller, { kind: 'increment', name: 'keyed', idempotencyKey }),
      () => call(caller, { kind: 'increment', name: 'keyed', idempotencyKey: `shared ${random.below(20)}` }),
      () => call(caller, { kind: 'incrementMany', changes: carts.map((name) => ({ name, delta: 1 })) }),
      () => call(caller, { kind: 'increment', name: 'bounded' }),
      () => call(caller, { kind: 'increment', name: 'bounded' }),
      () =>
        call(caller, {
          kind: 'defineCounter',
          name: 'bounded',
          definition: { maxValue: 10 + random.below(10) },
        }),
      () =>
        left % 4 === 0
          ? call(caller, { kind: 'reset', name: 'bounded', to: random.below(10), expectedValue: expected() })
          : call(caller, { kind: 'increment', name: 'bounded' }),
      () => call(caller, { kind: 'incrementBy', name: 'cup', delta: 3 - random.below(6) }),
      () => call(caller, { kind: 'increment', name: 'votes', subject }),
      () =>
        left % 12 === 0
          ? call(caller, {
              kind: 'reset',
              name: 'votes',
              to: random.below(3),
              forgetSubjects: left % 24 === 0,
            })
          : call(caller, { kind: 'uncount', name: 'votes', subject }),
      () => call(caller, { kind: 'nextInSequence', name: 'tickets', group: 'A', count: 1 + random.below(3) }),
      () => call(caller, { kind: 'nextInSequence', name: 'tickets', group: 'B' }),
      () => call(caller, { kind: 'nextInSequence', name: 'seats', group: 'g', subject }),
      () => call(caller, { kind: 'sequenceGroup', name: 'tickets', group: 'A' }),
      () => call(caller, { kind: 'increment', name: 'short' }),
      () =>
        random.below(8) > 0
          ? call(caller, { kind: 'counters', names: ['short'] })
          : call(caller, { kind: 'deleteCounter', name: 'short' }),
      () => numberInvoice(caller, idempotencyKey),
    ]
    await works[random.below(works.length)]?.()
  }

  async function numberInvoice(caller: number, idempotencyKey: string): Promise<void> {
    const reserved = await call(caller, { kind: 'reserveInSequence', name: 'invoices', idempotencyKey })
    const id = reserved.kind === 'answered' ? [reserved.answer].flat()[0]?.id : undefined
    if (id === undefined)
      return insist(caller, { kind: 'reserveInSequence', name: 'invoices', idempotencyKey })
    await insist(caller, { kind: random.below(2) === 0 ? 'confirmReservation' : 'releaseReservation', id })
  }

  await insist(0, {
    kind: 'defineSequence',
    name: 'invoices',
    definition: { gapless: true, format: 'INV-{value:3}' },
  })
  await insist(0, { kind: 'defineCounter', name: 'bounded', definition: { maxValue: 10 } })
  await insist(0, { kind: 'defineCounter', name: 'votes', definition: { minValue: 0 } })
  await insist(0, {
    kind: 'defineCounter',
    name: 'cup',
    definition: { minValue: 0, maxValue: 9, overflow: 'SATURATE' },
  })
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      while (left-- > 0) await work(caller)
    }),
  )
  const names = ['hot', 'by', 'keyed', 'cart a', 'cart b', 'cart c', 'bounded', 'cup', 'votes', 'short']
  await recorder.call('last', first.send, { kind: 'counters', names })
  for (const group of ['A', 'B'])
    await recorder.call('last', first.send, { kind: 'sequenceGroup', name: 'tickets', group })
  return [...recorder.records]
}
