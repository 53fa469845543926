// @module-tag random
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Nth } from '../../src/repository/nth.ts'
import { NthError } from '../../src/rules/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { writerFor } from '../../src/rules/sequence.ts'
import { numbersOf, type SequenceDefinitionChange } from '../../src/rules/sequenceDefinition.ts'
import { freshDatabase } from '../support/database/database.ts'
import {
  emptySequence,
  forecast,
  isUsed,
  latestOf,
  type SequenceModel,
  type SequenceOperation,
  type SequenceOutcome,
  stepSequence,
} from '../support/model/sequenceModel.ts'
import { FOR_EVER, GROUPS, HOUR, operation, START, sent } from '../support/model/sequenceOperations.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'

async function execute(
  sequences: Nth['sequences'],
  namespace: string,
  request: SequenceOperation,
): Promise<SequenceOutcome> {
  try {
    switch (request.kind) {
      case 'next': {
        const { group, count, key } = request
        const claim = key === undefined ? undefined : claimOf(namespace, key, [group, count])
        const numbers = await sequences.next({ namespace, sequence: 's', group }, count, { claim })
        const { isReplayed, issued } = numbers
        const texts = numbersOf(issued).map(writerFor(numbers))
        const { value, lastValue } = issued
        return { numbers: { value, lastValue, texts }, isReplayed }
      }
      case 'restart':
        await sequences.restart({ namespace, sequence: 's', group: request.group }, request.nextValue)
        return { done: true }
      case 'raise': {
        const { group, period, position, isIssued } = request
        const key = { namespace, sequence: 's', group }
        const raise = { period: periodKeyIn(period), position, isIssued, isTrial: false }
        return { raise: await sequences.raise(key, raise) }
      }
      case 'define':
        await sequences.define({ namespace, name: 's' }, request.change)
        return { done: true }
      case 'delete':
        await sequences.delete({ namespace, name: 's' })
        return { done: true }
    }
  } catch (error) {
    if (!(error instanceof NthError)) throw error
    const mayRepeat = error.message.includes('could repeat numbers')
    return { code: error.code, ...(mayRepeat && { mayRepeat }) }
  }
}

/** Whether a change leaves alone how numbers look, which come again, and whether there are some below 0. */
function isHarmless({ maxValue: _, timeZone: __, ...others }: SequenceDefinitionChange): boolean {
  return Object.values(others).every((part) => part === undefined)
}

/** The model after an operation with this result; undefined if the operation can't have had it. */
function after(
  model: SequenceModel,
  request: SequenceOperation,
  result: SequenceOutcome,
  at: number,
): SequenceModel | undefined {
  const [next, expected] = stepSequence(model, request, at)
  if (request.kind === 'define' && 'code' in result && result.mayRepeat) {
    return isUsed(model) && !('code' in expected) && !isHarmless(request.change) ? model : undefined
  }
  return isDeepStrictEqual(result, expected) || areBothFaulty(result, expected) ? next : undefined
}

/** Of a call with two faults, either may be reported: the key may be looked up before the group, or after it. */
function areBothFaulty(...outcomes: SequenceOutcome[]): boolean {
  const codes = ['BAD_USER_INPUT', 'IDEMPOTENCY_KEY_REUSED']
  return outcomes.every((outcome) => 'code' in outcome && codes.includes(outcome.code))
}

/** The texts that were issued although they had been before, where nobody has wished for that. */
function repeats(before: SequenceModel, request: SequenceOperation, result: SequenceOutcome): string[] {
  if (request.kind !== 'next' || !('numbers' in result) || result.isReplayed) return []
  const { cycle, allowRepeats } = before.definition
  if (cycle || allowRepeats) return []
  const isRestarted = Object.values(before.groups).some((group) => group.isRestarted)
  const own = before.groups[request.group]
  // A restart may repeat the numbers of its group; below 0, also the texts of others.
  const groups = isRestarted ? (own && !own.isRestarted ? [own] : []) : Object.values(before.groups)
  return result.numbers.texts.filter((text) => groups.some(({ texts }) => Object.hasOwn(texts, text)))
}

const SEQUENCES = runSize(4, 40)

it('sequences: agree with a model over random definitions, blocks, groups, cycles and restarts, and repeat no text', async () => {
  const clock = { at: START }
  const { sequences, faults } = openTestNth(await freshDatabase(), {
    now: () => new Date(clock.at),
    keyTtlMs: FOR_EVER,
  })
  let run = 0
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          request: operation,
          later: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, HOUR, 24 * HOUR, 24 * 31 * HOUR),
        }),
        { minLength: 100, maxLength: 100 },
      ),
      async (steps) => {
        clock.at = START
        let model = emptySequence
        const namespace = `n ${++run}`
        for (const { request: planned, later } of steps) {
          clock.at += later
          const request = sent(planned, model, clock.at)
          const result = await execute(sequences, namespace, request)
          const next = after(model, request, result, clock.at)
          if (!next)
            expect([request, model.definition, result]).toEqual(stepSequence(model, request, clock.at)[1])
          expect(repeats(model, request, result)).toEqual([])
          model = next ?? model
          const done = 'raise' in result ? result.raise : request.kind
          const what = 'code' in result ? (result.mayRepeat ? 'mayRepeat' : result.code) : done
          seen.set(what, (seen.get(what) ?? 0) + 1)
          for (const group of GROUPS) {
            const { lastValue, lastFormatted, nextValue } = await sequences.readSequenceGroup({
              namespace,
              sequence: 's',
              group,
            })
            expect([lastValue, lastFormatted]).toEqual(latestOf(model, group))
            expect(nextValue).toBe(forecast(model, group, clock.at))
          }
        }
      },
    ),
    { numRuns: SEQUENCES, endOnFailure: true },
  )
  expect(faults).toEqual([])
  const codes = [
    'BAD_USER_INPUT',
    'SEQUENCE_EXHAUSTED',
    'OUT_OF_RANGE',
    'LIMIT_REACHED',
    'IDEMPOTENCY_KEY_REUSED',
  ]
  const rare = meetsRareCases() ? ['mayRepeat', ...codes] : []
  const raises = ['created', 'raised', 'kept']
  for (const what of ['next', 'define', 'restart', 'delete', ...raises, ...rare]) {
    expect([what, (seen.get(what) ?? 0) > 0]).toEqual([what, true])
  }
})

/** A period key of the model as the database has it. */
function periodKeyIn(text: string): number {
  const [year, week] = text.split(' week ')
  return week === undefined ? Number(text.replace(/\D/g, '')) : Number(year) * 1000 + Number(week)
}
