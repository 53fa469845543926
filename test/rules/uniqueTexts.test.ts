// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PERIODS, periodKeyOf } from '../../src/rules/calendar.ts'
import { areDistinct, formatOf, parseFormat, skeletonsOf, writerOf } from '../../src/rules/format.ts'
import {
  blockAt,
  breaksGroups,
  changedSequenceDefinition,
  defaultSequenceDefinition,
  groupRefusal,
  type History,
  type PastFormat,
  type Position,
  pastFormatsOf,
  type SequenceDefinition,
  type SequenceDefinitionChange,
} from '../../src/rules/sequenceDefinition.ts'
import { runSize } from '../support/random.ts'

const RUNS = runSize(500, 5000)

const GROUPS = [
  '',
  'A',
  '1',
  '11',
  '0A',
  'A-',
  '-',
  '11-',
  '-1',
  '2010-',
  'INV',
  'INV-',
  '1/',
  '/',
  '{group}',
  '#',
]
const DAYS = ['{yyyy}{MM}{dd}', '{yyyy}{dd}{MM}', '{dd}{MM}{yyyy}', '{yyyy}{MM}']
const DATES = [2001, 2010, 2011, 2012, 2020].flatMap((year) =>
  [0, 1, 9, 10].flatMap((month) => [1, 2, 11].map((day) => new Date(Date.UTC(year, month, day)))),
)
const VALUES = [
  -11, -1, 0, 1, 2, 5, 10, 11, 12, 20, 101, 110, 111, 120, 1001, 1101, 2001, 2010, 10_001, 20_101,
]

const part = fc.constantFrom(
  ...['-', '-', '/', '0', '1', '20', 'A', 'W', 'INV', '#', '{{', '}}', '{{group}}'],
  ...['{group}', '{group}', '{group}', '{yyyy}', '{yyyy}', '{yy}', '{MM}', '{dd}', '{week}'],
  ...DAYS,
)
const value = fc.constantFrom('{value}', '{value}', '{value:2}', '{value:4}')
const written = fc
  .tuple(fc.array(part, { maxLength: 4 }), value, fc.array(part, { maxLength: 3 }))
  .map(([before, number, after]) => [...before, number, ...after].join(''))
  .filter((text) => !('message' in parseFormat(text)))

function definitionWith(format: string | null, startValue: number): SequenceDefinition {
  return { ...defaultSequenceDefinition('UTC'), format, startValue }
}

/** All texts of some groups. */
function textsOf(definition: SequenceDefinition, group: string, at: Date): string[] {
  const values = definition.startValue < 0 ? VALUES : VALUES.filter((value) => value > 0)
  return values.map(writerOf(definition, group, at))
}

it('breaksGroups: issues no text of one group in another, unless the definition is refused', () => {
  const seen = { accepted: 0, refused: 0, unnamed: 0 }
  fc.assert(
    fc.property(fc.option(written, { freq: 12 }), fc.constantFrom(1, -11), (format, startValue) => {
      const definition = definitionWith(format, startValue)
      if (breaksGroups(definition)) {
        seen.refused += 1
        return
      }
      const groups = GROUPS.filter((group) => !groupRefusal(definition, group))
      seen[groups.length > 1 ? 'accepted' : 'unnamed'] += 1
      for (const at of DATES.slice(0, 3)) {
        const texts = groups.flatMap((group) => textsOf(definition, group, at))
        expect([format, startValue, texts.length]).toEqual([format, startValue, new Set(texts).size])
      }
    }),
    { numRuns: RUNS },
  )
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(RUNS / 50)
})

/** A format, and one like it: formats that have nothing in common prove little. */
const pair = fc
  .oneof(
    fc.tuple(written, written),
    fc
      .tuple(written, part, fc.nat({ max: 20 }))
      .map(([one, added, at]) => [one, one.slice(0, at) + added + one.slice(at)] as const),
    fc.tuple(written, value).map(([one, width]) => [one, one.replace(/\{value(:\d)?\}/, width)] as const),
    fc
      .tuple(written, fc.constantFrom(...GROUPS))
      .map(([one, group]) => [one, one.replace('{group}', group)] as const),
    fc
      .tuple(written, fc.constantFrom(...DAYS), fc.constantFrom(...DAYS))
      .map(([one, day, other]) => [one.replace('{yyyy}', day), one.replace('{yyyy}', other)] as const),
  )
  .filter((formats) => formats.every((text) => !('message' in parseFormat(text))))

it('areDistinct: never takes two formats for distinct in which texts of any groups could be the same', () => {
  const seen = { distinct: 0, alike: 0 }
  fc.assert(
    fc.property(pair, fc.boolean(), ([one, other], isSigned) => {
      const [first, second] = [one, other].map((format) => skeletonsOf(formatOf(format, true), isSigned))
      const areAllDistinct = first?.every((a) => second?.every((b) => areDistinct(a, b)))
      seen[areAllDistinct ? 'distinct' : 'alike'] += 1
      if (!areAllDistinct) return
      const all = (format: string) =>
        GROUPS.flatMap((group) =>
          DATES.flatMap((at) => textsOf(definitionWith(format, isSigned ? -1 : 1), group, at)),
        )
      const others = new Set(all(other))
      expect([one, other, all(one).filter((text) => others.has(text))]).toEqual([one, other, []])
    }),
    { numRuns: RUNS / 5 },
  )
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(RUNS / 100)
})

const unused: History = {
  definition: defaultSequenceDefinition('UTC'),
  pastFormats: [],
  hasMigratedRepeats: false,
  used: { isNamed: false, isUnnamed: false },
  isUsedSince: false,
}

/** What a random sequence does: changes of its definition, and numbers. */
const change: fc.Arbitrary<SequenceDefinitionChange> = fc.record(
  {
    format: fc.oneof(
      fc.option(written, { freq: 6 }),
      fc.constantFrom(
        'INV-{value}',
        'N-{value}',
        'N-{group}/{value}',
        'INV-{yyyy}-{value}',
        'INV-{group}-{value}',
      ),
    ),
    startValue: fc.constantFrom(1, 1, 10, -11),
    step: fc.constantFrom(1, 1, 9, -1),
    minValue: fc.constantFrom(null, null, -20, 0),
    cycle: fc.boolean(),
    maxValue: fc.constantFrom(null, 30),
    restartEvery: fc.constantFrom(null, null, ...PERIODS),
    allowRepeats: fc.constantFrom(false, false, true),
  },
  { requiredKeys: [] },
)
const step = fc.oneof(
  { weight: 1, arbitrary: change.map((change) => ({ change })) },
  { weight: 1, arbitrary: fc.constantFrom('INV-{value}', null).map((format) => ({ change: { format } })) },
  {
    weight: 6,
    arbitrary: fc.record({
      group: fc.constantFrom(...GROUPS),
      count: fc.constantFrom(1, 1, 3),
      day: fc.nat({ max: DATES.length - 1 }),
    }),
  },
)

it('changedSequenceDefinition: repeats no text over random changes of a definition, groups and periods', () => {
  const seen = { issued: 0, changed: 0, refused: 0, exempt: 0 }
  fc.assert(
    fc.property(fc.array(step, { minLength: 30, maxLength: 30 }), (steps) => {
      let history = unused
      const positions = new Map<string, Position>()
      // With whether repeats were wished for when they were issued, or since: then they may come again.
      const texts = new Set<string>()
      const log: unknown[] = []
      for (const each of steps) {
        log.push(each)
        const { definition } = history
        if ('change' in each) {
          const changed = changedSequenceDefinition(history, each.change)
          seen[changed instanceof Error ? 'refused' : 'changed'] += 1
          if (changed instanceof Error) continue
          const isNew = JSON.stringify(changed.definition) !== JSON.stringify(definition)
          history = { ...history, ...changed, isUsedSince: history.isUsedSince && !isNew }
          continue
        }
        const { group, count } = each
        if (groupRefusal(definition, group)) continue
        const at = DATES[each.day] ?? new Date(0)
        const key = JSON.stringify([group, periodKeyOf(definition.restartEvery, 'UTC', at)])
        const block = blockAt(definition, positions.get(key) ?? { last: null, next: null }, count)
        if (block instanceof Error || block.ring) continue
        positions.set(key, { last: block.lastValue, next: null })
        history = {
          ...history,
          used: {
            isNamed: history.used.isNamed || group !== '',
            isUnnamed: history.used.isUnnamed || group === '',
          },
          isUsedSince: true,
        }
        for (let index = 0; index < count; index += 1) {
          const text = writerOf(definition, group, at)(block.value + index * definition.step)
          const mayRepeat = definition.allowRepeats || definition.cycle
          if (!mayRepeat && texts.has(text)) expect([log, text]).toBe('a text that is new')
          texts.add(text)
          seen[mayRepeat ? 'exempt' : 'issued'] += 1
        }
      }
    }),
    { numRuns: RUNS },
  )
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(RUNS / 2)
})

it.each([
  ['INV{group}{value:4}', 1],
  ['{value}{group}', 1],
  ['{group}0{value}', 1],
  ['{group}-{value}', -5],
  ['{group}-{yyyy}-{value}', -5],
])('defineSequence: refuses %s, starting at %s, as groups could issue one text', (format, startValue) => {
  expect(changedSequenceDefinition(unused, { format, startValue })).toMatchObject({ code: 'BAD_USER_INPUT' })
  expect(changedSequenceDefinition(unused, { format, startValue, allowRepeats: true })).not.toBeInstanceOf(
    Error,
  )
  // A program defines it at every start, as an earlier version has accepted it.
  const before = { ...unused, definition: definitionWith(format, startValue) }
  expect(changedSequenceDefinition(before, { format, maxValue: 99 })).toMatchObject({
    definition: { maxValue: 99 },
  })
})

it.each([
  ['INV-{value}', 'INV-{yyyy}-{value}', true],
  ['{value}', 'INV-{value}', true],
  ['INV-{value}', 'RE-{value}', true],
  ['T-{group}-{value}', 'N-{group}-{value}', true],
  ['{group}-{value}a', '{group}-{value}b', true],
  ['{value}', '{value:5}', false],
  ['24-{value}', '25-{value}', false],
  ['INV-{yyyy}-{value}', 'INV-{yyyy}{MM}-{value}', false],
  ['A-{value}', '{group}-{value}', false],
  ['T-{group}-{value}', 'T-{value}', false],
  ['TA-{group}-{value}', 'T-{value}', true],
])('areDistinct: of %s and then %s: %s', (first, second, expected) => {
  const [one = '', other = ''] = [first, second].map(
    (format) => skeletonsOf(formatOf(format, true), false)[0],
  )
  expect(areDistinct(one, other)).toBe(expected)
})

it('pastFormatsOf: reads the past formats of earlier versions', () => {
  const past = (format: string | null, isSigned: boolean, isNamed: boolean): PastFormat => {
    return { format, isSigned, groups: { isNamed, isUnnamed: !isNamed } }
  }
  expect(pastFormatsOf(past('INV{yyyy}-{value:4}', true, false))).toEqual(['INV#-#', 'INV#--#'])
  expect(pastFormatsOf(past(null, false, true))).toEqual(['{group}-#'])
  expect(pastFormatsOf(past(null, false, false))).toEqual(['#'])
  expect(pastFormatsOf(past('{{group}}{value}', false, true))).toEqual(['{group}#'])
})

/** A sequence that has issued numbers by a definition, to its unnamed group. */
function usedWith(definition: Partial<SequenceDefinition>, pastFormats: readonly string[] = []): History {
  const used = { isNamed: false, isUnnamed: true }
  return {
    ...unused,
    definition: { ...unused.definition, ...definition },
    pastFormats,
    used,
    isUsedSince: true,
  }
}

it.each<[Partial<SequenceDefinition>, SequenceDefinitionChange]>([
  [{ allowRepeats: true }, { allowRepeats: false }],
  [{ cycle: true, maxValue: 9 }, { cycle: false }],
  [{}, { step: -1 }],
  [{ format: '{yyyy}-{value}' }, { restartEvery: 'YEAR' }],
])('changedSequenceDefinition: requires another format after %j for %j', (definition, change) => {
  const history = usedWith(definition)
  expect(changedSequenceDefinition(history, change)).toMatchObject({ code: 'BAD_USER_INPUT' })
  expect(changedSequenceDefinition(history, { ...change, format: 'N-{yyyy}-{value}' })).not.toBeInstanceOf(
    Error,
  )
})

it('changedSequenceDefinition: refuses numbers below 0 that would look like those of an earlier format', () => {
  const history = usedWith({ format: 'A{value}', restartEvery: null, cycle: true, maxValue: 9 }, ['A-#'])
  expect(
    changedSequenceDefinition(history, { cycle: false, format: 'B{value}', minValue: -5 }),
  ).not.toBeInstanceOf(Error)
  const named = { ...usedWith({ format: 'A{value}' }, ['A-#']), used: { isNamed: true, isUnnamed: true } }
  expect(changedSequenceDefinition(named, { startValue: -5 })).toMatchObject({ code: 'BAD_USER_INPUT' })
  expect(changedSequenceDefinition({ ...named, pastFormats: [] }, { startValue: -5 })).not.toBeInstanceOf(
    Error,
  )
})
