// Nth's own HTTP and GraphQL with nothing behind them: as fast as Nth could be on any database.
import type { CounterChange } from '../src/repository/counters.ts'
import type { Nth } from '../src/repository/nth.ts'
import type { CounterKey, CounterState, Definition } from '../src/rules/counter.ts'
import type { SequenceGroupKey, SequenceGroupState } from '../src/rules/sequence.ts'
import { built } from './processes.ts'

const { DEFAULT_RETENTION, UNBOUNDED, unwritten } =
  await built<typeof import('../src/rules/counter.ts')>('rules/counter.js')
const { keepRequestsYoung } =
  await built<typeof import('../src/operations/process.ts')>('operations/process.js')
const { Gate } = await built<typeof import('../src/graphql/gate.ts')>('graphql/gate.js')
const { listen } = await built<typeof import('../src/http/server.ts')>('http/server.js')

const PLAIN: Definition = { ...UNBOUNDED, slots: 1, timeZone: 'UTC', periods: [] }

/** What measured requests use of Nth. */
interface Measured {
  apiKeys: Pick<Nth['apiKeys'], 'find'>
  counters: Pick<Nth['counters'], 'incrementBy' | 'read' | 'readMany'>
  namespaces: Pick<Nth['namespaces'], 'read'>
  sequences: Pick<Nth['sequences'], 'next' | 'read' | 'readSequenceGroup'>
}

function openMemoryNth(): Measured {
  const counters = new Map<string, CounterState>()
  const groups = new Map<string, SequenceGroupState>()

  function stateOf(key: CounterKey): CounterState {
    return counters.get(`${key.namespace}\n${key.name}`) ?? unwritten(key, 0)
  }

  return {
    apiKeys: {
      find: () => undefined,
    },
    counters: {
      async incrementBy(key, delta): Promise<CounterChange> {
        const at = new Date()
        const counter = stateIn(counters, `${key.namespace}\n${key.name}`, () => ({
          ...key,
          value: 0,
          definition: PLAIN,
          createdAt: at,
          updatedAt: at,
          revision: 0,
          held: 0,
          heldDown: 0,
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
          isAlreadyCounted: false,
          valuesIn: undefined,
          definition: PLAIN,
          revision: counter.revision,
        }
      },

      read: async (key) => stateOf(key),
      readMany: async (keys) => keys.map(stateOf),
    },

    namespaces: {
      read: async (name) => ({ name, ...DEFAULT_RETENTION, leaderboards: [], filled: [] }),
    },

    sequences: {
      async next(key, count) {
        const at = new Date()
        const text = `${key.namespace}\n${key.sequence}\n${key.group}`
        const group = stateIn(groups, text, () => ({ ...unused(key), lastValue: 0 }))
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
      read: async (key) => ({ ...key, definition: undefined, createdAt: null }),
    },
  }
}

function unused(key: SequenceGroupKey): SequenceGroupState {
  const nothing = { lastValue: null, lastFormatted: null, updatedAt: null, revision: 0 }
  return { ...key, ...nothing, nextValue: 1, nextFormatted: null }
}

function stateIn<State>(states: Map<string, State>, key: string, make: () => State): State {
  const state = states.get(key) ?? make()
  states.set(key, state)
  return state
}

keepRequestsYoung()
// No measured request calls another method.
const nth = openMemoryNth() as Nth
const notices = { info: console.error, warn: console.error, fault: console.error }
const gate = new Gate(10_000)
const { url } = await listen({
  host: '127.0.0.1',
  port: 0,
  allowedOrigins: [],
  access: {},
  trustedOnly: false,
  maxConnectionsPerAddress: Number.POSITIVE_INFINITY,
  maxStreams: Number.POSITIVE_INFINITY,
  version: '',
  readMetrics: async () => '',
  nth,
  gate,
  notices,
})
console.log(`Serving at ${url}`)
