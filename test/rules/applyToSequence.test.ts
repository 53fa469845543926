import { expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import {
  applyToSequence,
  type NumberState,
  numberState,
  type StoredReservation,
} from '../../src/rules/sequence.ts'
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

function found(reservation: StoredReservation): NumberState {
  const definition = { ...defaults, gapless: true }
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
    group: '',
    definition,
    salt: undefined,
    issuedIn: undefined,
    ...ids,
  } as const
  return numberState({ row, periodKey: 0 }, { ...position, reservations: [reservation] })
}

it.each([
  ['before', ['confirm', 'reserve']],
  ['after', ['reserve', 'confirm']],
] as const)('issues no number that is confirmed %s it in the same flush', (_, kinds) => {
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

it('leaves the holder of the same number of another generation or period alone', () => {
  for (const other of [{ generation: 1 }, { periodKey: 2025 }]) {
    const state = found({ ...justExpired, ...other })
    expect(applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)).toMatchObject({
      state: 'CONFIRMED',
    })
  }
})

it('does not reissue a number that was released in another generation or period', () => {
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

it('refuses a restart before a number that is confirmed in the same flush', () => {
  const state = found({ ...justExpired, value: 8, expiresAt: 2000 })
  expect(applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)).toMatchObject({
    state: 'CONFIRMED',
  })
  const restart = (nextValue: number) => applyToSequence(state, { kind: 'restart', nextValue }, AT)
  expect(restart(8)).toMatchObject({ code: 'BAD_USER_INPUT', details: { limit: 8 } })
  expect(restart(9)).toMatchObject({ kind: 'restart', nextValue: 9 })
})

it('closes a reservation that was open when its group is restarted in the same flush', () => {
  const state = found({ ...justExpired, value: 8, expiresAt: 2000 })
  applyToSequence(state, { kind: 'restart', nextValue: 1 }, AT)
  const refusal = applyToSequence(state, { kind: 'confirm', token: 'first' }, AT)
  expect(refusal).toMatchObject({ code: 'RESERVATION_CLOSED', details: { state: 'EXPIRED' } })
})
