// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { inParallel } from '../support/client/client.ts'
import { expectNoGap, KEY, settleAll } from '../support/client/invoices.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { createRandom, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

const step = fc.record({
  kind: fc.constantFrom('reserve', 'reserve', 'confirm', 'release', 'expire', 'again'),
  pick: fc.nat(),
})

it('reservations: agree with a model over random steps', async () => {
  const target = await freshDatabase()
  const { sequences, faults } = openTestNth(target)
  await sequences.define({ namespace: 'default', name: 'invoice' }, { gapless: true })
  const made: { token: string; value: number; state: string }[] = []
  const free = new Set<number>()
  let highest = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 100, maxLength: 100 }), async (steps) => {
      for (const { kind, pick } of steps) {
        // One of the latest, so that the others are settled in time.
        const one = made[made.length - 1 - (pick % 12)]
        if (kind === 'reserve') {
          const [lowest] = [...free].toSorted((a, b) => a - b)
          const value = lowest ?? ++highest
          free.delete(value)
          const { token, state, ...rest } = await sequences.reserve(KEY, 600)
          expect([rest.value, state]).toEqual([value, 'RESERVED'])
          made.push({ token, value, state })
        } else if (one && kind === 'expire') {
          await query(
            target,
            `update reservation set expires_at = utc_timestamp(3) - interval 1 second where state = 0 and token = x'${one.token}'`,
          )
          if (one.state === 'RESERVED') {
            one.state = 'EXPIRED'
            free.add(one.value)
          }
        } else if (one && (kind === 'confirm' || kind === 'release')) {
          const wanted = kind === 'confirm' ? 'CONFIRMED' : 'RELEASED'
          const answer = sequences[kind](one.token)
          if (one.state === 'RESERVED' || one.state === wanted) {
            expect(await answer).toMatchObject({ value: one.value, state: wanted })
            if (one.state === 'RESERVED' && kind === 'release') free.add(one.value)
            one.state = wanted
          } else {
            await expect(answer).rejects.toMatchObject({
              code: 'RESERVATION_CLOSED',
              details: { state: one.state },
            })
          }
        } else if (one) {
          expect(await sequences.reservation(one.token)).toMatchObject({ value: one.value, state: one.state })
        }
        const { nextValue } = await sequences.readSequenceGroup(KEY)
        expect(nextValue).toBe(Math.min(...free, highest + 1))
      }
    }),
    { numRuns: runSize(3, 10), endOnFailure: true },
  )
  await expectNoGap(target)
  await settleAll(target, sequences, KEY)
  expect(faults).toEqual([])
})

it('reservations: leave no gap behind 40 callers in two processes who confirm, give back, forget, and use keys again', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  const [first] = processes
  if (!first) throw new Error('There are two')
  await first.sequences.define({ namespace: 'default', name: 'invoice' }, { gapless: true })
  const random = createRandom()
  const calls = runSize(300, 600)
  await inParallel(40, calls, async (index) => {
    const { sequences } = processes[index % 2] ?? first
    const isKeyed = random.fraction() < 0.3
    const claim = isKeyed ? claimOf('default', `k${random.below(calls / 7)}`, []) : undefined
    const draw = random.fraction()
    try {
      // Some of those that are forgotten expire soon.
      const { token } = await sequences.reserve(KEY, draw < 0.9 ? 600 : 1, claim)
      if (draw < 0.5) await sequences.confirm(token)
      else if (draw < 0.8) await sequences.release(token)
    } catch (error) {
      // Who uses a key again may find its reservation closed.
      const isClosed = error instanceof NthError && error.code === 'RESERVATION_CLOSED'
      if (!isClosed || !isKeyed) throw error
    }
  })
  const { confirmed, open, free } = await expectNoGap(target)
  expect(Math.min(confirmed.length, open.length)).toBeGreaterThan(0)
  expect(free.length + open.length).toBeLessThan(calls)
  await settleAll(target, first.sequences, KEY)
  for (const { faults } of processes) expect(faults).toEqual([])
})
