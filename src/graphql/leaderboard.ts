import type { DefaultConnectionArguments } from '@pothos/plugin-relay'
import type { GraphQLResolveInfo } from 'graphql'
import type { Nth } from '../repository/nth.ts'
import type { Period as CalendarPeriod } from '../rules/calendar.ts'
import type { Page } from '../rules/counter.ts'
import { ALL_TIME, type LeaderboardEntry, type LeaderboardOrder } from '../rules/leaderboards.ts'
import * as checks from './arguments.ts'
import { addEnum, builder } from './builder.ts'
import type { Context } from './context.ts'
import { Counter, type CounterSource, Period } from './counter.ts'
import { connectionOf, type LeaderboardPosition, leaderboardCursors, STATEMENT_COST } from './lists.ts'
import { onAllNames } from './rights.ts'
import { chargeApart, chargeList, refuseInSubscription, room } from './selections.ts'

export const CounterOrder = addEnum('CounterOrder', 'The order of a list of counters.', {
  NAME_ASC: 'By name, in code point order: `B` comes before `a`.',
  VALUE_DESC: 'Highest value first. The list may be about a second behind.',
  VALUE_ASC: 'Lowest value first. The list may be about a second behind.',
  UPDATED_AT_DESC:
    'Latest change first, and counters that never changed last. The list may be about a second behind.',
})

export const CounterEdge = builder.edgeObject({
  type: Counter,
  name: 'CounterEdge',
  description: 'A counter in a list.',
  fields: (t) => ({
    rank: t.int({
      nullable: true,
      description:
        'The position in this order, starting at 1, counted from the cursor. Null if the order is by name, or if the position is unknown.',
      resolve: ({ node }) => node.listed?.position.rank ?? null,
    }),
    place: t.int({
      nullable: true,
      description:
        'The place by value in this order, starting at 1. Counters with the same value share a place: 1, 2, 2, 4. Null if the order is not by value.',
      resolve: ({ node }, _, __, info) => {
        refuseInSubscription(info)
        return node.listed?.place() ?? null
      },
    }),
    value: t.field({
      type: 'SafeInt',
      description:
        'The value in the list: in the leaderboard of a period, the period total. It may be a second older than `node`.',
      resolve: ({ node }) => node.listed?.value ?? node.value,
    }),
  }),
})

/** Returns a page of a leaderboard. */
export function pageOfLeaderboard(
  namespace: string,
  order: LeaderboardOrder,
  periodKey: number,
  args: DefaultConnectionArguments,
  context: Context,
  info: GraphQLResolveInfo,
) {
  const { nth, owner } = context
  const list = async (page: Page<LeaderboardPosition>) => {
    const entries = await nth.leaderboard.list(namespace, { order, periodKey, ...page }, owner)
    const listed = page.fromEnd ? entries.toReversed() : entries
    const counters = listedIn(listed, order, context, firstRankOf(listed.length, page))
    return page.fromEnd ? counters.reverse() : counters
  }
  return connectionOf(args, context, info, leaderboardCursors[order], list, ({ listed }) => listed.position)
}

/** The first rank of a page, counted from the cursor. Pages listed from the end have it only with a `before` cursor. */
function firstRankOf(length: number, { after, before, fromEnd }: Page<LeaderboardPosition>) {
  if (fromEnd) return before?.rank && before.rank - length
  return after ? after.rank && after.rank + 1 : 1
}

/** Adds positions and places to entries that follow each other on a leaderboard. Places are read if one is selected. */
function listedIn(
  entries: readonly LeaderboardEntry[],
  order: LeaderboardOrder,
  { nth: { leaderboard }, owner }: Context,
  firstRank = Number.NaN,
) {
  let places: Promise<(number | null)[]> | undefined
  const placeAt = async (index: number) => {
    if (order === 'UPDATED_AT_DESC') return null
    places ??= leaderboard.placesOf(entries, order === 'VALUE_ASC', owner)
    return (await places)[index] ?? null
  }
  return entries.map(({ sortKey, listedValue, leaderboard: _, ...counter }, index) => {
    const rank = firstRank + index
    // More counters may precede it now than when the cursor was created.
    const position = { rank: rank > 0 ? rank : undefined, ...sortKey }
    return { listed: { value: listedValue, position, place: () => placeAt(index) }, ...counter }
  })
}

/** Edges of entries that follow each other on a leaderboard: by default, of its first ones. */
export function edgesOf(
  entries: readonly LeaderboardEntry[],
  order: LeaderboardOrder,
  context: Context,
  firstRank = 1,
) {
  const { encode } = leaderboardCursors[order]
  return listedIn(entries, order, context, firstRank).map((node) => ({
    node,
    cursor: encode(node.listed.position),
  }))
}

const toSeeOthers = onAllNames('READ', ({ parent }) => parent.namespace)

export const instantIn = (zone: string) =>
  `An instant in the period, by the time zone of the ${zone}. The default is now. The last 12 periods before that are kept.`

/** The arguments that choose a leaderboard. */
const chosen = builder.args((t) => ({
  period: t.field({
    type: Period,
    description:
      'By the total of this period, which must be in `leaderboards` of the namespace. By default, by value.',
  }),
  at: t.field({ type: 'DateTime', description: instantIn('counter') }),
  lowestFirst: t.boolean({
    required: true,
    defaultValue: false,
    description: 'Whether the lowest value is in the first place.',
  }),
}))

interface ChosenPeriod {
  period?: CalendarPeriod | null | undefined
  at?: Date | null | undefined
}

/**
 * The key of a period by the time zone of a counter, or of its namespace; undefined: that has no leaderboard of it, or not
 * with all counters yet.
 */
export async function periodKeyIn(
  namespace: string,
  { period, at }: ChosenPeriod,
  { namespaces, leaderboard }: Nth,
  counter?: CounterSource,
) {
  if (!period) return ALL_TIME
  const { filled, ...retention } = await namespaces.read(namespace)
  const { timeZone } = counter?.definition ?? retention
  return filled.includes(period) ? leaderboard.periodKey(period, timeZone, at) : undefined
}

/** A counter on a leaderboard; undefined: see `periodKeyIn`. */
async function keyOn(
  counter: CounterSource,
  { lowestFirst, ...period }: ChosenPeriod & { lowestFirst: boolean },
  nth: Nth,
) {
  const { namespace, name } = counter
  const periodKey = await periodKeyIn(namespace, period, nth, counter)
  return periodKey === undefined ? undefined : { namespace, name, periodKey, lowestFirst }
}

const extensions = { check: checks.leaderboard, right: toSeeOthers }
export const MAX_NEIGHBORS = 50

builder.objectFields(Counter, (t) => ({
  place: t.int({
    nullable: true,
    description:
      'The place by value in its namespace, or by period total, starting at 1. Counters with the same value share a place: 1, 2, 2, 4. It may be about a second behind. Null if the counter is not on that leaderboard: it was never changed or defined, or nothing was added in the period, or the namespace has no such leaderboard, or not with all counters yet. Not available in subscriptions.',
    args: chosen,
    extensions,
    async resolve(counter, args, context, info) {
      refuseInSubscription(info)
      await chargeApart(context, info)
      const { nth } = context
      const key = await keyOn(counter, args, nth)
      return key ? nth.leaderboard.place(key, context.owner) : null
    },
  }),
  neighbors: t.field({
    type: [CounterEdge],
    nullable: true,
    description:
      'The counters around this one on the leaderboard, in its order, with this one. Null if the counter is not on it. Not available in subscriptions.',
    args: {
      above: neighborCount('above it'),
      below: neighborCount('below it'),
      ...chosen,
    },
    extensions,
    async resolve(counter, { above, below, ...args }, context, info) {
      refuseInSubscription(info)
      const { nth } = context
      const values = chargeList(context, STATEMENT_COST + above + 1 + below, info)
      await room(context, values)
      const key = await keyOn(counter, args, nth)
      const entries = key ? await nth.leaderboard.neighbors(key, above, below, context.owner) : null
      if (!entries) return null
      await room(context, values)
      return edgesOf(entries, args.lowestFirst ? 'VALUE_ASC' : 'VALUE_DESC', context, Number.NaN)
    },
  }),
}))

function neighborCount(where: string) {
  return builder.args((t) => ({
    count: t.int({
      required: true,
      defaultValue: 2,
      description: `The number of counters ${where}, 0 to ${MAX_NEIGHBORS}.`,
      extensions: { check: checks.between(0, MAX_NEIGHBORS) },
    }),
  })).count
}
