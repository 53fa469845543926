// @module-tag slow
import { describe, expect, it } from 'vitest'
import type { Batch, Transaction, Writer } from '../../src/commit/batch.ts'
import { planOf } from './plan.ts'
import type { Breakage } from './process.ts'
import { runPlan } from './run.ts'

/** A writer whose transactions do something else. */
function broken(
  breakTransaction: (transaction: Transaction, batch: Batch) => Partial<Transaction>,
): Breakage {
  return {
    breakWriter: (writer: Writer) => ({
      ...writer,
      async begin(batch) {
        const transaction = await writer.begin(batch)
        if (transaction.kind !== 'transaction') return transaction
        const others = breakTransaction(transaction, batch)
        // The methods of a transaction need its private parts, so they are called on itself.
        return new Proxy(transaction, {
          get(target, name) {
            const value = Reflect.get(name in others ? others : target, name)
            return typeof value === 'function' ? value.bind(target) : value
          },
        })
      },
    }),
  }
}

function replaced(shape: RegExp, by: string): Breakage {
  return { breakStatement: (statement) => statement.replace(shape, by) }
}

/**
 * Bugs that a text or a transaction can have. A call that is answered twice, as it stays in a flush that it has left, and
 * others in the code of `src` were planted by hand.
 */
const BUGS: [name: string, breakage: Breakage][] = [
  [
    'a call that is committed after UNAVAILABLE',
    broken((transaction) => ({
      async rollBack() {
        await transaction.commit()
      },
    })),
  ],
  [
    'a call that is sent again, though its COMMIT had an effect',
    broken((transaction) => ({
      async commit() {
        const outcome = await transaction.commit()
        return outcome.kind === 'committed' ? { kind: 'lost', cause: 'planted' } : outcome
      },
    })),
  ],
  [
    'numbers that are off by one after a call was refused',
    broken((transaction, { approach }) => ({
      async read() {
        const reading = await transaction.read()
        const hadRefusal = 'lockedPath' in approach && approach.lockedPath.size > 0
        if (!hadRefusal || reading.kind !== 'read') return reading
        const counters = [...reading.counters].map(
          ([work, before]) => [work, { ...before, value: before.value + 1 }] as const,
        )
        return { ...reading, counters: new Map(counters) }
      },
    })),
  ],
  ['a text that arrives after its repetition', replaced(/ and epoch = \d+/g, '')],
  [
    'a reading of the fence that does not raise its epoch',
    replaced(/last_insert_id\(epoch \+ 1\)/, 'last_insert_id(epoch)'),
  ],
  [
    'a repeated call that counts',
    replaced(/^insert ignore into idempotency_key/, 'replace into idempotency_key'),
  ],
  ['a claim that a refused call keeps', replaced(/^delete from idempotency_key.*/, 'do 0')],
  [
    'a bound that is decided on a value from before the lock',
    replaced(/(order by counter_id, slot)\s+for update$/, '$1'),
  ],
  [
    'a number that is issued after one from before the lock',
    replaced(/(order by group_id)\s+for update$/, '$1'),
  ],
  ['a row that is used after its deletion', replaced(/^delete from counter_value.*/, 'do 0')],
]

describe('the simulation', () => {
  it.each(BUGS)('finds %s', async (_, breakage) => {
    let seed = 1
    while (seed < 2000 && (await runPlan(planOf(seed), breakage)).faults.length === 0) seed += 1
    expect(seed).toBeLessThan(2000)
  })
})
