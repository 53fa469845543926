import type { CounterChange } from '../../src/repository/counters.ts'
import type { Nth } from '../../src/repository/nth.ts'
import type { CounterKey, CounterState, Definition } from '../../src/rules/counter.ts'
import type { SequenceGroupKey, SequenceGroupState } from '../../src/rules/sequence.ts'
import { built } from '../built.ts'

const { DEFAULT_RETENTION } = await built<typeof import('../../src/rules/counter.ts')>('rules/counter.js')
const { unwritten } = await built<typeof import('../../src/rules/counter.ts')>('rules/counter.js')

const PLAIN: Definition = { bounds: undefined, slots: 1, timeZone: 'UTC', periods: [] }

/** What Nth can do, as far as it is measured, with no database behind it: what the rest costs. */
export function openMemoryNth(): Nth {
  const counters = new Map<string, CounterState>()
  const groups = new Map<string, SequenceGroupState>()

  function stateOf(key: CounterKey): CounterState {
    return counters.get(`${key.namespace}\n${key.name}`) ?? unwritten(key, 0)
  }

  return {
    apiKeys: {
      find: () => undefined,
      isValid: notMeasured,
      create: notMeasured,
      revoke: notMeasured,
      read: notMeasured,
      list: notMeasured,
    },
    checkDatabase: notMeasured,
    counters: {
      async incrementBy(key, delta): Promise<CounterChange> {
        const at = new Date()
        const counter = kept(counters, `${key.namespace}\n${key.name}`, () => ({
          ...key,
          value: 0,
          definition: PLAIN,
          createdAt: at,
          updatedAt: at,
          revision: 0,
        }))
        const previousValue = counter.value
        counter.value += delta
        counter.revision += 1
        counter.updatedAt = at
        return {
          key,
          value: counter.value,
          previousValue,
          appliedDelta: delta,
          at,
          isReplayed: false,
          valuesIn: undefined,
          definition: PLAIN,
          revision: counter.revision,
        }
      },

      read: async (key) => stateOf(key),
      readMany: async (keys) => keys.map(stateOf),
      incrementMany: notMeasured,
      reset: notMeasured,
      resetAll: notMeasured,
      define: notMeasured,
      delete: notMeasured,
      list: notMeasured,
      listLeaderboard: notMeasured,
      history: notMeasured,
      valueIn: notMeasured,
    },

    live: {
      open() {
        throw new Error('Not measured.')
      },
      watch: notMeasured,
      closeFeed: () => undefined,
    },

    namespaces: {
      read: async (name) => ({ name, retention: DEFAULT_RETENTION }),
      list: notMeasured,
      define: notMeasured,
    },

    sequences: {
      async next(key, count) {
        const at = new Date()
        const text = `${key.namespace}\n${key.sequence}\n${key.group}`
        const group = kept(groups, text, () => ({ ...unused(key), lastValue: 0 }))
        const before = group.lastValue ?? 0
        const lastValue = before + count
        group.lastValue = lastValue
        group.updatedAt = at
        group.revision += 1
        const issued = {
          kind: 'numbers',
          value: before + 1,
          lastValue,
          count,
          step: 1,
          nextValue: lastValue + 1,
          format: null,
          timeZone: 'UTC',
          revision: group.revision,
        } as const
        return { key, issued, at, isReplayed: false }
      },

      readSequenceGroup: async (key) =>
        groups.get(`${key.namespace}\n${key.sequence}\n${key.group}`) ?? unused(key),
      readSequenceGroups: notMeasured,
      read: async (key) => ({ ...key, definition: undefined, createdAt: null }),
      readMany: notMeasured,
      restart: notMeasured,
      reserve: notMeasured,
      confirm: notMeasured,
      release: notMeasured,
      reservation: notMeasured,
      reservations: notMeasured,
      sequenceGroupOfReservation: notMeasured,
      define: notMeasured,
      delete: notMeasured,
      list: notMeasured,
      listSequenceGroups: notMeasured,
    },
  }
}

function unused(key: SequenceGroupKey): SequenceGroupState {
  const nothing = { lastValue: null, lastFormatted: null, updatedAt: null, revision: 0 }
  return { ...key, ...nothing, nextValue: 1, nextFormatted: null }
}

function kept<State>(states: Map<string, State>, key: string, make: () => State): State {
  const found = states.get(key)
  if (found) return found
  const made = make()
  states.set(key, made)
  return made
}

async function notMeasured(): Promise<never> {
  throw new Error('Not measured, and not there.')
}
