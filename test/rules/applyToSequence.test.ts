import { expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import {
  applyToSequence,
  type NumberState,
  numberState,
  type SequenceGroupReading,
  type StoredReservation,
} from '../../src/rules/sequence.ts'
import type { Position, SequenceDefinition } from '../../src/rules/sequenceDefinition.ts'
import { defaults } from '../support/model/sequenceModel.ts'

const AT = new Date(0)

/** One that expires between the moment at which the clock is read, and that at which the free numbers are. */
const justExpired: StoredReservation = {
  kind: 'reservation',
  token: 'first',
  value: 5,
  formatted: '5',
  state: 'RESERVED',
  expiresAt: 1001,
  periodKey: 0,
  generation: 0,
  isFree: false,
}

function found(
  reservation: StoredReservation,
  before: Partial<SequenceGroupReading> = {},
  definition: SequenceDefinition = { ...defaults, gapless: true },
  group = '',
): NumberState {
  const position = {
    last: 9,
    next: null,
    generation: 0,
    isLost: false,
    isNew: false,
    isReserved: false,
    now: 1000,
    free: [5],
    confirmed: null,
    subjects: undefined,
    revision: undefined,
  }
  const ids = { id: 1, sequenceId: 1, identity: 1, version: 1, incarnation: 0 }
  const row = {
    kind: 'sequenceGroup',
    key: 'g',
    group,
    definition,
    salt: undefined,
    issuedIn: undefined,
    ...ids,
  } as const
  return numberState({ row, periodKey: 0 }, { ...position, reservations: [reservation], ...before })
}

it.each([
  ['before', ['confirm', 'reserve']],
  ['after', ['reserve', 'confirm']],
] as const)('reserveInSequence: issues no number that is confirmed %s it in the same flush', (_, kinds) => {
  const state = found(justExpired)
  const answers = kinds.map((kind) =>
    kind === 'confirm'
      ? applyToSequence(state, { kind, token: 'first' }, AT)
      : applyToSequence(state, { kind, token: 'second', ttlMs: 60_000 }, AT),
  )
  const refusal = answers.find((answer) => answer instanceof NthError)
  expect(refusal).toMatchObject({ code: 'RESERVATION_CLOSED', details: { state: 'EXPIRED' } })
  expect(answers.find((answer) => !(answer instanceof NthError))).toMatchObject({
    value: 5,
    state: 'RESERVED',
  })
})

it('reserveInSequence: leaves the holder of the same number of another generation or period alone', () => {
  for (const other of [{ generation: 1 }, { periodKey: 2025 }]) {
    const state = found({ ...justExpired, ...other })
    expect(applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)).toMatchObject({
      state: 'CONFIRMED',
    })
  }
})

it('reserveInSequence: does not reissue a number that was released in another generation or period', () => {
  for (const other of [{ generation: 1 }, { periodKey: 2025 }]) {
    const state = found({ ...justExpired, value: 3, expiresAt: 2000, ...other })
    expect(applyToSequence(state, { kind: 'release', token: 'first' }, AT)).toMatchObject({
      state: 'RELEASED',
    })
    expect(applyToSequence(state, { kind: 'reserve', token: 'second', ttlMs: 60_000 }, AT)).toMatchObject({
      value: 5,
    })
  }
})

it.each([
  ['lowest first', 1, [3, 5, 7, 8]],
  ['highest first in a sequence that counts down', -1, [8, 7, 5, 3]],
])(
  'reserveInSequence: reissues numbers that are released in one flush %s, whatever the order of the releases',
  (_, step, values) => {
    const reservations = [7, 3, 8].map((value) => ({
      ...justExpired,
      token: `of ${value}`,
      value,
      expiresAt: 2000,
    }))
    const state = found(justExpired, { reservations }, { ...defaults, gapless: true, step })
    for (const { token } of reservations) applyToSequence(state, { kind: 'release', token }, AT)
    const reserved = values.map((value) =>
      applyToSequence(state, { kind: 'reserve', token: `again ${value}`, ttlMs: 60_000 }, AT),
    )
    expect(reserved).toMatchObject(values.map((value) => ({ value })))
  },
)

it('restartSequence: is refused before a number that is confirmed in the same flush', () => {
  const state = found({ ...justExpired, value: 8, expiresAt: 2000 }, { confirmed: 3 })
  expect(applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)).toMatchObject({
    state: 'CONFIRMED',
  })
  const restart = (nextValue: number) => applyToSequence(state, { kind: 'restart', nextValue }, AT)
  expect(restart(8)).toMatchObject({ code: 'BAD_USER_INPUT', details: { limit: 8 } })
  expect(restart(9)).toMatchObject({ kind: 'restart', nextValue: 9 })
})

it('restartSequence: closes a reservation that was open, and reissues no free number, in the same flush', () => {
  const state = found({ ...justExpired, value: 8, expiresAt: 2000 })
  applyToSequence(state, { kind: 'restart', nextValue: 20 }, AT)
  expect(applyToSequence(state, { kind: 'reserve', token: 'second', ttlMs: 1 }, AT)).toMatchObject({
    value: 20,
  })
  const refusal = applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)
  expect(refusal).toMatchObject({ code: 'RESERVATION_CLOSED', details: { state: 'EXPIRED' } })
})

const MAX = Number.MAX_SAFE_INTEGER

/** What a raise changes in a sequence group that has a position and a definition. */
function raised(
  [before, to]: readonly [Partial<SequenceGroupReading>, Partial<Position>],
  definition: Partial<SequenceDefinition> = {},
  group = '',
) {
  const empty = { last: null, next: null }
  const state = found(justExpired, { ...empty, ...before }, { ...defaults, ...definition }, group)
  const position = { last: null, next: null, ...to }
  const result = applyToSequence(state, { kind: 'raise', period: 0, position, isIssued: true }, AT)
  if (result instanceof NthError) {
    const { last = null, next = null } = before
    expect(state).toMatchObject({ position: { last, next }, changes: { isMoved: false, raised: 0 } })
    return result.code
  }
  if (result.kind !== 'raise') throw new Error('It is the result of a raise')
  const { last, next } = state.position
  expect(state.changes.isMoved).toBe(result.outcome !== 'kept')
  return [result.outcome, last, next]
}

const UP = { step: 2 }
const DOWN = { step: -3, startValue: 10 }
const ROUND = { minValue: 1, maxValue: 9, cycle: true }

it.each<
  [string, readonly [Partial<SequenceGroupReading>, Partial<Position>], Partial<SequenceDefinition>, unknown]
>([
  ['to nothing', [{ isNew: true }, {}], {}, ['kept', null, null]],
  ['from nothing', [{ isNew: true }, { last: 4 }], {}, ['created', 4, null]],
  ['from nothing to below the start', [{}, { last: -7 }], { startValue: 50 }, ['raised', -7, null]],
  ['from nothing to a next number', [{}, { next: 4 }], UP, ['raised', null, 4]],
  ['to the same', [{ last: 4 }, { last: 4 }], {}, ['kept', 4, null]],
  ['to the same next number', [{ last: 4 }, { next: 6 }], UP, ['kept', 4, null]],
  ['to the next number after that', [{ last: 4 }, { next: 7 }], UP, ['raised', null, 7]],
  ['behind a restart', [{ last: 90, next: 3 }, { last: 2 }], {}, ['kept', 90, 3]],
  ['beyond a restart', [{ last: 90, next: 3 }, { last: 3 }], {}, ['raised', 3, null]],
  ['to a restart', [{ last: 4 }, { last: 90, next: 3 }], {}, ['kept', 4, null]],
  ['downwards', [{ last: 4 }, { last: 3 }], DOWN, ['raised', 3, null]],
  ['upwards in one that descends', [{ last: 4 }, { last: 5 }], DOWN, ['kept', 4, null]],
  ['downwards from a restart', [{ last: 4, next: 8 }, { last: 10 }], DOWN, ['raised', 10, null]],
  ['to the bound', [{ last: 4 }, { last: 9 }], ROUND, ['raised', 9, null]],
  ['beyond a bound', [{ last: 4 }, { last: 10 }], ROUND, 'LIMIT_REACHED'],
  ['to before the first number of a cycle', [{ last: 4 }, { last: 0 }], ROUND, 'LIMIT_REACHED'],
  ['backwards in a cycle', [{ last: 9 }, { last: 1 }], ROUND, ['kept', 9, null]],
  ['to a valid number after an invalid one', [{ last: 4 }, { last: 99, next: 8 }], ROUND, ['raised', 99, 8]],
  ['to an invalid number after a valid one', [{ last: 4 }, { last: 8, next: 99 }], ROUND, 'LIMIT_REACHED'],
  ['into bounds that were changed', [{ last: 90 }, { last: 4 }], ROUND, ['kept', 90, null]],
  ['to the end of the range', [{ last: MAX - 1 }, { last: MAX }], UP, ['raised', MAX, null]],
  ['at the end of the range', [{ last: MAX }, { last: MAX - 1 }], UP, ['kept', MAX, null]],
  ['past a next number at the end', [{ next: MAX }, { last: MAX - 1 }], UP, ['raised', MAX - 1, null]],
  ['by less than rounding', [{ last: 4 }, { last: 5 }], { step: MAX }, ['raised', 5, null]],
  ['down to the end', [{ last: 1 - MAX }, { last: -MAX }], { step: -2 }, ['raised', -MAX, null]],
  ['down by less than rounding', [{ last: -4 }, { last: -5 }], { step: -MAX }, ['raised', -5, null]],
  ['whose position is lost', [{ isLost: true }, { last: 4 }], {}, 'CONFLICT'],
  [
    'gapless, with its own',
    [{ last: 4, isReserved: true }, { last: 5 }],
    { gapless: true },
    'BAD_USER_INPUT',
  ],
  [
    'gapless, to the same',
    [{ last: 4, isReserved: true }, { last: 4 }],
    { gapless: true },
    ['kept', 4, null],
  ],
  ['gapless', [{ last: 4 }, { last: 5 }], { gapless: true }, ['raised', 5, null]],
])('raise: raises a sequence group %s', (_, positions, definition, expected) => {
  expect(raised(positions, definition)).toEqual(expected)
})

it('raise: raises no named sequence group that its format does not show, and no period of other sequences', () => {
  expect(raised([{}, { last: 4 }], { format: 'A-{value}' }, 'g')).toBe('BAD_USER_INPUT')
  expect(raised([{}, { last: 4 }], { format: 'A-{value}' })).toEqual(['raised', 4, null])
  expect(raised([{}, { last: 4 }], { format: '{yyyy}/{value}', restartEvery: 'YEAR' })).toBe('BAD_USER_INPUT')
})

it('raise: keeps the generation of a raised sequence group, its free numbers and its reservations', () => {
  const state = found({ ...justExpired, generation: 7 }, { generation: 7 })
  const position = { last: 20, next: null }
  expect(applyToSequence(state, { kind: 'raise', period: 0, position, isIssued: false }, AT)).toEqual({
    kind: 'raise',
    outcome: 'raised',
  })
  expect(state).toMatchObject({
    position: { generation: 7, last: 20 },
    reservations: { free: [5] },
    changes: { isIssued: false, isRaised: true },
  })
  expect(state.reservations.byToken.get('first')?.state).toBe('EXPIRED')
})
