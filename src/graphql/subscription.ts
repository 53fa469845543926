import { brandWithType } from '@pothos/core'
import type { GraphQLResolveInfo } from 'graphql'
import { MAX_LEADERS, type Topic, type Watched } from '../repository/live.ts'
import type { LeaderboardEntry, LeaderboardOrder } from '../rules/leaderboards.ts'
import type { SequenceGroupState } from '../rules/sequence.ts'
import * as checks from './arguments.ts'
import { decodeId, keyOf, sequenceGroupKeyOf } from './arguments.ts'
import { builder, namespaceArgument } from './builder.ts'
import type { Context } from './context.ts'
import { Counter, type CounterSource, countersArguments, Period } from './counter.ts'
import { CounterEdge, CounterOrder, edgesOf } from './leaderboard.ts'
import { onAllNames, onIds, onName, onNames } from './rights.ts'
import { chargedList } from './selections.ts'
import { group, SequenceGroup, sequenceArguments } from './sequence.ts'
import { ReservationRef } from './sequenceNumbers.ts'

builder.subscriptionType({
  description:
    'Subscriptions, which are streams of events. The first event has everything that was requested, each once, in the requested order. Later events have only what changed, in its newest state, at most ten times a second. The end of a period also changes `valueIn` and `history`. After a reconnect, the first event has everything again. Null and errors mean the same as in queries.',
})

/**
 * An event is one execution of the operation. The first has no root value: it starts to watch, by the context. Later
 * executions have what changed as their root value. So streams with the same operation and rights share an execution, and
 * graphql-js's own `subscribe`, with an execution for each, is not used.
 */
type Changed = readonly Watched[] | undefined

function subscribe(): AsyncIterable<Changed> {
  throw new Error('Subscriptions are executed event by event')
}

const toReadAll = onAllNames('READ', ({ args }) => args.namespace)

builder.subscriptionFields((t) => ({
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    extensions: { right: onNames },
    description:
      'Returns the current state of 1 to 500 counters, then in each event the counters that changed. A counter that you may not read, or that cannot be read, is null and has an error.',
    args: countersArguments,
    subscribe,
    resolve: async (changed: Changed, { names, namespace }, context, info) => {
      const topics = names.map((name) => ({ kind: 'counter', key: { namespace, name } }) as const)
      const lengths = names.map((name) => namespace.length + name.length)
      const watched = changed ?? (await watch(context, info, topics, lengths))
      // Counters always have a state.
      return watched.map(({ state }) => state as CounterSource)
    },
  }),
  nodes: t.field({
    type: [builder.nodeInterfaceRef()],
    nullable: { list: true, items: true },
    extensions: { right: onIds },
    description:
      'Returns the current state of 1 to 500 counters, sequence groups and reservations of any namespaces, then in each event the objects that changed. So one stream serves a whole page. Null if an object does not exist.',
    args: {
      ids: t.arg.idList({
        required: true,
        description: 'IDs that the API returned.',
        extensions: { check: checks.topicIds },
      }),
    },
    subscribe,
    resolve: async (changed: Changed, { ids }, context, info) => {
      const lengths = ids.map(({ length }) => length)
      return (changed ?? (await watch(context, info, ids.map(topicOf), lengths))).map(nodeOf)
    },
  }),
  sequenceGroup: t.field({
    type: SequenceGroup,
    nullable: true,
    extensions: { right: onName('READ') },
    description: 'Returns the current state of a sequence group, then in each event its newest one.',
    args: { name: sequenceArguments.name, group, namespace: sequenceArguments.namespace },
    subscribe,
    resolve: async (changed: Changed, { namespace, name, group }, context, info) => {
      const topic = { kind: 'sequenceGroup', key: { namespace, sequence: name, group } } as const
      const lengths = [namespace.length + name.length + group.length]
      const [watched] = changed ?? (await watch(context, info, [topic], lengths))
      return stateOf<SequenceGroupState>(watched)
    },
  }),
  leaderboard: t.field({
    type: [CounterEdge],
    nullable: true,
    extensions: { check: checks.liveLeaderboard, right: toReadAll },
    description:
      'Returns the first counters of a leaderboard, then in each event all of them, at most once a second. `place` is not in subscriptions; `rank` is. Null if the namespace has no leaderboard of `period`, or not with all counters yet.',
    args: {
      namespace: namespaceArgument('The namespace of the counters.'),
      orderBy: t.arg({
        type: CounterOrder,
        required: true,
        defaultValue: 'VALUE_DESC',
        description: 'The order, which may not be NAME_ASC.',
      }),
      period: t.arg({
        type: Period,
        description:
          'By the total of the current period, which must be in `leaderboards` of the namespace. It requires the order VALUE_DESC or VALUE_ASC. By default, by value.',
      }),
      first: t.arg.int({
        required: true,
        defaultValue: 10,
        description: `How many counters, 1 to ${MAX_LEADERS}.`,
        extensions: { check: checks.between(1, MAX_LEADERS) },
      }),
    },
    subscribe,
    resolve: async (changed: Changed, { namespace, orderBy, period = null, first }, context, info) => {
      // The field's check allows no other order.
      const order = orderBy as LeaderboardOrder
      const topic = { kind: 'leaderboard', key: { namespace, order, period } } as const
      const lengths = Array<number>(first).fill(namespace.length)
      const [watched] = changed ?? (await watch(context, info, [topic], lengths))
      const { entries } = stateOf<{ entries: readonly LeaderboardEntry[] }>(watched) ?? {}
      return entries ? edgesOf(entries.slice(0, first), order, context) : null
    },
  }),
}))

/** The state of the one topic that a field watches, which is of the kind of that field. */
function stateOf<State>(watched: Watched | undefined): State | null {
  const { state } = watched ?? {}
  if (state instanceof Error) throw state
  return (state as State | undefined) ?? null
}

/** Starts to watch topics, for the first event. Later ones have waited for room. */
function watch(context: Context, info: GraphQLResolveInfo, topics: readonly Topic[], lengths: number[]) {
  const { watch } = context
  if (!watch) throw new Error('A subscription without a way to watch')
  return chargedList(context, info, lengths, () => watch(topics))
}

/** Of what has an id. */
const types = { counter: Counter, sequenceGroup: SequenceGroup, reservation: ReservationRef }

type NodeTopic = Exclude<Topic, { kind: 'leaderboard' }>

/** What an id identifies that passed `checks.topicIds`. */
function topicOf(id: string): NodeTopic {
  const { typename, id: names } = decodeId(id)
  if (typename === 'Reservation') return { kind: 'reservation', key: { token: names } }
  if (typename === 'Counter') return { kind: 'counter', key: keyOf(names) }
  return { kind: 'sequenceGroup', key: sequenceGroupKeyOf(names) }
}

function nodeOf({ topic, state }: Watched) {
  // Null is what doesn't exist, and an error one that can't be read.
  if (!state || state instanceof Error) return state
  brandWithType(state, types[(topic as NodeTopic).kind])
  return state
}
