// @module-tag random
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { formatsOverlap, parseFormat, writerOf } from '../../src/rules/format.ts'
import {
  changedSequenceDefinition,
  defaultSequenceDefinition,
  type PastFormat,
} from '../../src/rules/sequenceDefinition.ts'
import { runSize } from '../support/random.ts'
import { SHORT_MS } from '../support/server/ticks.ts'

const RUNS = runSize(500, 2000)

const GROUPS = ['', 'A', '1', '0A', 'A-', '-', '20', '-1', '2010-']
const DAYS = ['{yyyy}{MM}{dd}', '{yyyy}{dd}{MM}', '{dd}{MM}{yyyy}', '{yyyy}{MM}']

const part = fc.constantFrom(
  ...['-', '-', '/', '0', '1', '20', 'A', 'W', '{{', '}}'],
  ...['{group}', '{group}', '{yyyy}', '{yyyy}', '{yy}', '{MM}', '{dd}', '{week}'],
  ...DAYS,
)
const value = fc.constantFrom('{value}', '{value}', '{value:2}', '{value:4}')
const written = fc
  .tuple(fc.array(part, { maxLength: 4 }), value, fc.array(part, { maxLength: 3 }))
  .map(([before, number, after]) => [...before, number, ...after].join(''))
  .filter((text) => !('message' in parseFormat(text)))
const format = fc.option(written, { freq: 12 })

/** A format, and one like it: formats that have nothing in common prove little. */
const pair = fc
  .oneof(
    fc.tuple(format, format),
    fc
      .tuple(written, part, fc.nat({ max: 20 }))
      .map(([one, added, at]) => [one, one.slice(0, at) + added + one.slice(at)]),
    fc.tuple(written, value).map(([one, width]) => [one, one.replace(/\{value(:\d)?\}/, width)]),
    fc.tuple(written, fc.constantFrom(...GROUPS)).map(([one, group]) => [one, one.replace('{group}', group)]),
    fc
      .tuple(written, fc.constantFrom(...DAYS), fc.constantFrom(...DAYS))
      .map(([one, day, other]) => [one.replace('{yyyy}', day), one.replace('{yyyy}', other)]),
  )
  .filter((formats): formats is [string | null, string | null] =>
    formats.every((text) => text === null || !('message' in parseFormat(text ?? ''))),
  )

const VALUES = [-11, -1, 0, 1, 2, 5, 10, 11, 12, 20, 101, 110, 120, 201, 1001, 2001, 2010, 20_101]
const DATES = [2001, 2010, 2011, 2012, 2020].flatMap((year) =>
  [0, 1, 9, 10].flatMap((month) => [1, 2, 11].map((day) => new Date(Date.UTC(year, month, day)))),
)

/** All texts that numbers of a group can have. */
function textsOf(format: string | null, group: string, values: number[]): Set<string> {
  return new Set(DATES.flatMap((at) => values.map(writerOf({ format, timeZone: 'UTC' }, group, at))))
}

it('never takes two formats for different in which numbers of a group could look the same', () => {
  const seen = { overlapping: 0, different: 0 }
  fc.assert(
    fc.property(pair, fc.constantFrom(...GROUPS), fc.boolean(), ([one, other], group, isSigned) => {
      const groups = { isNamed: group !== '', isUnnamed: group === '' }
      const isOverlapping = formatsOverlap(one, other, { isSigned, groups })
      seen[isOverlapping ? 'overlapping' : 'different'] += 1
      if (isOverlapping) return
      const values = VALUES.filter((value) => isSigned || value >= 0)
      const others = textsOf(other, group, values)
      const both = [...textsOf(one, group, values)].filter((text) => others.has(text))
      if (both.length > 0) expect([one, other, group, both]).toEqual('no such text')
    }),
    { numRuns: RUNS },
  )
  expect(Math.min(seen.overlapping, seen.different)).toBeGreaterThan(RUNS / 20)
})

const positive = { isSigned: false, groups: { isNamed: true, isUnnamed: true } }
const signed = { ...positive, isSigned: true }
const unnamed = { ...positive, groups: { isNamed: false, isUnnamed: true } }

it.each([
  ['{value}', 'INV-{value}', signed],
  ['INV-{value}', 'INV-{yyyy}-{value}', positive],
  ['{group}{value}', '{group}/{value}', signed],
  [null, 'T-{group}-{value}', signed],
  ['T-{group}-{value}', '{group}-{value}', signed],
  ['T-{group}-{value}', '{yyyy}/{value}', signed],
  ['{value}', 'INV-{yyyy}-{value:5}', signed],
  ['INV-{value}', 'RE-{value}', signed],
  ['{yyyy}{MM}{dd}/{value}', '{week}/{value}', positive],
])('distinguishes %s and %s by a character', (before, after, circumstances) => {
  expect(formatsOverlap(before, after, circumstances)).toBe(false)
})

it.each([
  ['10{value}', '{value}', positive],
  ['{value}', '{value}0', positive],
  ['{value}', '{value:5}', positive],
  ['{value}', '1{value}', unnamed],
  ['24-{value}', '25-{value}', unnamed],
  ['{yyyy}-{value}', '{value}-{yyyy}', positive],
  ['INV-{yyyy}-{value}', 'INV-{yyyy}{MM}-{value}', positive],
  // Group A, and any group.
  ['A-{value}', '{group}-{value}', positive],
  // Number -5, and number 5.
  ['A{value}', 'A-{value}', signed],
])('takes for an overlap: %s, then %s', (before, after, circumstances) => {
  expect(formatsOverlap(before, after, circumstances)).toBe(true)
})

/** By another format as often as can be, each as long as can be. */
function manyFormats(make: (time: number) => string) {
  const used = { isNamed: true, isUnnamed: true }
  const formatHistory = Array.from({ length: 99 }, (_, time): PastFormat => {
    const format = make(time)
    return { format, restartEvery: null, isDescending: false, isSigned: false, groups: used, isMixed: false }
  })
  const definition = { ...defaultSequenceDefinition('UTC'), format: make(98) }
  return { definition, formatHistory, used, isUsedSince: true }
}

it.each([
  ['refused', (time: number) => `${'1'.repeat(time)}{group}${'1'.repeat(140 - time)}-{value}a`],
  ['accepted', (time: number) => `${'1'.repeat(time)}{group}${'x'.repeat(140 - time)}-{value}`],
])('holds up nobody for a change of format after 99 of them: %s', (outcome, make) => {
  const history = manyFormats(make)
  // The best of several times: a collection of garbage may fall into others.
  const shortestMs = Math.min(
    ...Array.from({ length: 10 }, () => {
      const from = process.cpuUsage()
      const changed = changedSequenceDefinition(history, { format: make(99) })
      expect(changed instanceof Error ? 'refused' : 'accepted').toBe(outcome)
      return process.cpuUsage(from).user / 1000
    }),
  )
  // It was up to two seconds.
  expect(shortestMs).toBeLessThan(SHORT_MS)
})
