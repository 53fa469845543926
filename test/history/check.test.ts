// @module-tag slow
// @module-tag random
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { emptyState, type ModelOutcome, step } from '../support/model/model.ts'
import { type ApiModelOperation, apiOperations } from '../support/model/operations.ts'
import { openOnce } from '../support/openOnce.ts'
import { createRandom, runSize } from '../support/random.ts'
import { startNth, temporaryDirectory } from '../support/server/nthProcess.ts'
import { checkHistory } from './check.ts'
import {
  type Answer,
  type ApiOperation,
  type CallOutcome,
  type CallRecord,
  lineOf,
  readHistory,
} from './history.ts'
import { MUTATIONS } from './mutations.ts'
import { recordHistory } from './realHistory.ts'
import { summaryOf, writeFaults } from './report.ts'

/** What callers of two servers were answered. */
async function realHistory(): Promise<CallRecord[]> {
  const DATABASE_URL = urlOf(await freshDatabase())
  const servers = [await startNth({ DATABASE_URL }), await startNth({ DATABASE_URL })] as const
  return recordHistory(servers, { callers: 16, calls: runSize(1500, 4000), random: createRandom() })
}

describe('the history checker', () => {
  it('accepts what callers of two servers are answered', async () => {
    expect(summaryOf(checkHistory(await openOnce(realHistory)))).toMatch(
      /^\d+ calls, 12 components: 0 faults, 0 given up$/,
    )
  })

  it.each(Object.entries(MUTATIONS))('refuses a history in which %s', async (_, mutate) => {
    const history = await openOnce(realHistory)
    const random = createRandom()
    for (const _ of upTo(3)) {
      const wrong = upTo(100).reduce<CallRecord[] | undefined>(
        (found) => found ?? mutate(history, random),
        undefined,
      )
      const { faults, givenUp } = checkHistory(wrong ?? [])
      expect([faults.length, givenUp]).toEqual([1, []])
    }
  })

  /** An operation of the model as the API has it. */
  function apiOperationOf({ key: idempotencyKey, ...operation }: ApiModelOperation): ApiOperation {
    switch (operation.kind) {
      case 'add':
        return { kind: 'incrementBy', name: operation.name, delta: operation.delta, idempotencyKey }
      case 'many':
        return { kind: 'incrementMany', changes: operation.changes, idempotencyKey }
      case 'reset':
        return { ...operation, idempotencyKey }
      case 'define':
        return { kind: 'defineCounter', name: operation.name, definition: operation.change }
      case 'delete':
        return { kind: 'deleteCounter', name: operation.name }
    }
  }

  function callOutcomeOf({ kind }: ApiModelOperation, outcome: ModelOutcome): CallOutcome {
    if ('code' in outcome) return { kind: 'refused', ...outcome }
    const answers = outcome.answers.map(({ value, previousValue, appliedDelta }): Answer => {
      if (kind === 'define') return { value }
      return { value, previousValue, appliedDelta, replayed: outcome.isReplayed }
    })
    return { kind: 'answered', answer: kind === 'many' ? answers : (answers[0] ?? null) }
  }

  it('accepts every history in which calls overlap, some without an answer, and each has an effect at one instant', () => {
    const calls = fc.array(
      fc.record({
        operation: apiOperations,
        before: fc.nat({ max: 6 }),
        after: fc.nat({ max: 6 }),
        luck: fc.nat({ max: 9 }),
      }),
      { minLength: 1, maxLength: 60 },
    )
    fc.assert(
      fc.property(calls, (all) => {
        let state = emptyState
        const history = all.map(({ operation, before, after, luck }, at): CallRecord => {
          const call = { caller: String(at), operation: apiOperationOf(operation), sentAt: at - before }
          // It has an effect, or not, and its caller doesn't know which.
          if (luck === 0) return { ...call, answeredAt: null, outcome: { kind: 'unknown' } }
          const [next, outcome] = step(state, operation)
          state = next
          if (luck === 1) return { ...call, answeredAt: null, outcome: { kind: 'unknown' } }
          return { ...call, answeredAt: at + after, outcome: callOutcomeOf(operation, outcome) }
        })
        expect(checkHistory(history)).toMatchObject({ faults: [], givenUp: [] })
      }),
      { numRuns: runSize(100, 3000) },
    )
  })

  /** A call of `increment`, with its number; without: nobody knows. */
  function counted(sentAt: number, answeredAt: number, value?: number): CallRecord {
    const call = { caller: 'a', operation: { kind: 'increment', name: 'c' } as const, sentAt }
    if (value === undefined) return { ...call, answeredAt: null, outcome: { kind: 'unknown' } }
    return { ...call, answeredAt, outcome: { kind: 'answered', answer: { value } } }
  }

  /** The same of a counter that others may also reset, so that it takes a search. */
  const RESET: CallRecord = {
    caller: 'r',
    operation: { kind: 'reset', name: 'c' },
    sentAt: -2,
    answeredAt: -1,
    outcome: { kind: 'answered', answer: { value: 0 } },
  }

  it.each<[string, CallRecord[], boolean]>([
    ['one after the other', [counted(1, 2, 1), counted(3, 4, 2)], true],
    ['at the same time, in either order', [counted(1, 9, 2), counted(2, 8, 1)], true],
    ['a number before a lower one is requested', [counted(1, 2, 2), counted(3, 4, 1)], false],
    ['a number twice', [counted(1, 9, 1), counted(2, 8, 1)], false],
    ['a number that is missing', [counted(1, 9, 1), counted(2, 8, 3)], false],
    ['an unknown call that counted', [counted(1, 2), counted(3, 4, 2)], true],
    ['an unknown call that counted later', [counted(1, 2), counted(3, 4, 1), counted(5, 6, 3)], true],
    ['an unknown call that did not count', [counted(1, 2), counted(3, 4, 1)], true],
    ['an unknown call that counted before it was sent', [counted(1, 2, 2), counted(3, 4)], false],
    ['an unknown call that counted twice', [counted(1, 2), counted(3, 4, 2), counted(5, 6, 4)], false],
  ])('judges %s, by counting and by searching', (_, calls, isFine) => {
    expect(checkHistory(calls).faults).toHaveLength(isFine ? 0 : 1)
    expect(checkHistory([RESET, ...calls]).faults).toHaveLength(isFine ? 0 : 1)
  })

  it('counts what it gives up, and keeps a fault as a text and a history', async () => {
    const oncePer: CallRecord = {
      ...RESET,
      operation: { kind: 'defineCounter', name: 'd', definition: { oncePer: 'DAY' } },
    }
    const result = checkHistory([oncePer, counted(1, 2, 1), counted(3, 4, 1)])
    expect(summaryOf(result)).toMatch(
      /^3 calls, 2 components: 1 faults, 1 given up\nfault in .*\ngiven up .*DAY|date/,
    )
    const directory = await temporaryDirectory()
    writeFaults(directory, result)
    expect(readFileSync(join(directory, 'fault-1.txt'), 'utf8')).toContain('> 3.000 to 4.000')
    expect(readHistory(join(directory, 'fault-1.jsonl')).map(lineOf)).toEqual(
      result.faults[0]?.calls.map(lineOf),
    )
  })

  it('gives up a search that takes too long', () => {
    const calls = upTo(12).map((at) => ({
      ...RESET,
      operation: { kind: 'incrementBy', name: 'c', delta: at } as const,
      sentAt: 0,
      answeredAt: 1,
      outcome: { kind: 'answered', answer: {} } as const,
    }))
    const read: CallRecord = {
      caller: 'a',
      operation: { kind: 'counters', names: ['c'] },
      sentAt: 2,
      answeredAt: 3,
      outcome: { kind: 'answered', answer: [{ value: 1 }] },
    }
    const { faults, givenUp } = checkHistory([...calls, read], { limit: 1000 })
    expect([faults.length, givenUp.length]).toEqual([0, 1])
  })

  it('finds a wrong number among many unknown calls without a long search', () => {
    const definition: CallRecord = {
      ...RESET,
      operation: { kind: 'defineCounter', name: 'c', definition: { maxValue: 9000 } },
      outcome: { kind: 'answered', answer: {} },
    }
    const unknown = upTo(40).map(() => counted(0, 0))
    const numbered = [...upTo(200), 1000].map((value): CallRecord => {
      const outcome = { kind: 'answered' as const, answer: { value, previousValue: value - 1 } }
      return { ...counted(value, value + 8, value), outcome }
    })
    const { faults, givenUp } = checkHistory([definition, ...unknown, ...numbered], { limit: 100_000 })
    expect([faults.length, givenUp]).toEqual([1, []])
  })
})
