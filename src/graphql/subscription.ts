import { brandWithType } from '@pothos/core'
import type { GraphQLResolveInfo } from 'graphql'
import type { Topic, Watched } from '../repository/live.ts'
import * as checks from './arguments.ts'
import { decodeId, keyOf, sequenceGroupKeyOf } from './arguments.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { Counter, type CounterSource, countersArguments } from './counter.ts'
import { onIds, onNames } from './rights.ts'
import { chargedList } from './selections.ts'
import { SequenceGroup } from './sequence.ts'
import { ReservationRef } from './sequenceNumbers.ts'

builder.subscriptionType({
  description:
    'Subscriptions, which are streams of events. The first event has everything that was requested, each once, in the requested order. Later events have only what changed, in its newest state, at most ten times a second. The end of a period also changes `valueIn` and `history`. After a reconnect, the first event has everything again.',
})

/**
 * An event is one execution of the operation. The first has no root value: it starts to watch, by the context. Those
 * after it have what changed as their root value. So streams with the same operation and rights share an execution, and
 * graphql-js's own `subscribe`, with an execution for each, is not used.
 */
type Changed = readonly Watched[] | undefined

function subscribe(): AsyncIterable<Changed> {
  throw new Error('Subscriptions are executed event by event')
}

builder.subscriptionFields((t) => ({
  counters: t.field({
    type: [Counter],
    nullable: { list: true, items: true },
    extensions: { right: onNames },
    description:
      'Returns the current state of 1 to 500 counters, then in each event the counters that changed.',
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
}))

/** Starts to watch topics, for the first event. Later ones have waited for room. */
function watch(context: Context, info: GraphQLResolveInfo, topics: readonly Topic[], lengths: number[]) {
  const { watch } = context
  if (!watch) throw new Error('A subscription without a way to watch')
  return chargedList(context, info, lengths, () => watch(topics))
}

const types = { counter: Counter, sequenceGroup: SequenceGroup, reservation: ReservationRef }

/** What an id identifies that passed `checks.topicIds`. */
function topicOf(id: string): Topic {
  const { typename, id: names } = decodeId(id)
  if (typename === 'Reservation') return { kind: 'reservation', key: { token: names } }
  if (typename === 'Counter') return { kind: 'counter', key: keyOf(names) }
  return { kind: 'sequenceGroup', key: sequenceGroupKeyOf(names) }
}

function nodeOf({ topic, state }: Watched) {
  // Null is what doesn't exist, and an error one that can't be read.
  if (!state || state instanceof Error) return state
  brandWithType(state, types[topic.kind])
  return state
}
