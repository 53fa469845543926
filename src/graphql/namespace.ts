import type { NamespaceState } from '../repository/namespaces.ts'
import type { Nth } from '../repository/nth.ts'
import type { Period as CalendarPeriod } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import { ALL_TIME } from '../rules/leaderboards.ts'
import { namespacesOf } from '../rules/rights.ts'
import * as checks from './arguments.ts'
import { builder, namespaceArgument, orNull, parts } from './builder.ts'
import {
  Counter,
  type CounterSource,
  Period,
  TrackedPeriodInput,
  TrackedPeriodRef,
  withZone,
} from './counter.ts'
import { CounterEdge, CounterOrder, pageOfLeaderboard } from './leaderboard.ts'
import { listedByName, pageByName, prefix } from './lists.ts'
import { inNamespace, none, on, PREFIXED } from './rights.ts'
import { Sequence } from './sequence.ts'

/** A namespace. All but its name is read on demand if it isn't known. */
type NamespaceSource = Pick<NamespaceState, 'name'> & Partial<NamespaceState>

/** The right to see the defaults of a namespace. */
const toSeeDefaults = inNamespace('READ', ({ parent }) => parent.name, 'DEFINE')

const Namespace = builder.objectRef<NamespaceSource>('Namespace')

builder.node(Namespace, {
  description: 'A separate set of names, with defaults for new counters and sequences.',
  id: { resolve: ({ name }) => name },
  loadWithoutCache: (name) => ({ name }),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'The name, exactly as it was written.' }),
    ...parts(t, retentionOf, {
      timeZone: [orNull('String'), 'The IANA time zone of new counters and sequences.', toSeeDefaults],
      periods: [orNull([TrackedPeriodRef]), 'The periods whose totals new counters keep.', toSeeDefaults],
    }),
    leaderboards: t.field({
      type: [Period],
      nullable: true,
      description: 'The periods for which it has leaderboards of what was added in them.',
      extensions: { right: toSeeDefaults },
      resolve: async (namespace, _, { nth }) =>
        (await stateOf(namespace, nth)).leaderboards.map(({ period }) => period),
    }),
    counters: t.connection(
      {
        type: Counter,
        nullable: true,
        description:
          'The counters that were changed or defined, as a list or a leaderboard. `prefix` requires the order NAME_ASC. Null if the leaderboard of a period does not have all counters yet.',
        args: {
          prefix,
          orderBy: t.arg({
            type: CounterOrder,
            required: true,
            defaultValue: 'NAME_ASC',
            description: 'The order of the list.',
          }),
          period: t.arg({
            type: Period,
            description:
              'Orders by what was added in this period, which must be in `leaderboards`. Each counter has its own time zone, and is listed if something was added. It requires the order VALUE_DESC or VALUE_ASC.',
          }),
          at: t.arg({
            type: 'DateTime',
            description:
              'An instant in the period, by the time zone of the namespace. The default is now. The 12 last periods are kept.',
          }),
        },
        extensions: {
          check: checks.counterPage,
          right: on('READ', PREFIXED, ({ parent, args: { prefix, orderBy } }) => ({
            namespace: parent.name,
            prefix: orderBy === 'NAME_ASC' ? prefix : '',
          })),
        },
        async resolve(namespace, { orderBy, period, at, ...args }, context, info) {
          const { name } = namespace
          if (orderBy === 'NAME_ASC')
            return pageByName<CounterSource>(args, context, info, (page) =>
              context.nth.counters.list(name, page),
            )
          const state = period ? await stateOf(namespace, context.nth) : undefined
          const periodKey = state && period ? leaderboardIn(state, period, at, context.nth) : ALL_TIME
          return periodKey === undefined
            ? null
            : pageOfLeaderboard(name, orderBy, periodKey, args, context, info)
        },
      },
      { name: 'CounterConnection', description: 'A page of counters.' },
      CounterEdge,
    ),
    sequences: t.connection(
      {
        ...listedByName(
          on('READ', PREFIXED, ({ parent, args }) => ({ namespace: parent.name, prefix: args.prefix })),
        ),
        type: Sequence,
        description: 'The sequences that were used or defined, by name.',
        resolve: ({ name }, args, context, info) =>
          pageByName(args, context, info, (page) => context.nth.sequences.list(name, page)),
      },
      { name: 'SequenceConnection', description: 'A page of sequences.' },
      { name: 'SequenceEdge', description: 'A sequence in a list.' },
    ),
  }),
})

for (const type of [Counter, Sequence]) {
  builder.objectField(type, 'namespace', (t) =>
    t.field({
      type: Namespace,
      nullable: true,
      extensions: { right: none(`reached with its ${type === Counter ? 'counter' : 'sequence'}`) },
      description: 'Its namespace.',
      resolve: ({ namespace }) => ({ name: namespace }),
    }),
  )
}

const namespaceName = namespaceArgument('The name of the namespace.')

builder.queryFields((t) => ({
  namespace: t.field({
    type: Namespace,
    extensions: { right: inNamespace('READ', ({ args }) => args.name) },
    description: 'Returns a namespace with its defaults, counters and sequences.',
    args: { name: namespaceName },
    resolve: (_, { name }) => ({ name }),
  }),
  namespaces: t.connection(
    {
      ...listedByName(on('READ', 'any name; it lists the namespaces of the grants')),
      type: Namespace,
      description: 'Returns the namespaces that contain a counter or a sequence, by name.',
      resolve(_, args, context, info) {
        const only = namespacesOf(context.caller, 'READ')
        return pageByName(args, context, info, (page) => context.nth.namespaces.list(page, only))
      },
    },
    { name: 'NamespaceConnection', description: 'A page of namespaces.' },
    { name: 'NamespaceEdge', description: 'A namespace in a list.' },
  ),
}))

const NamespaceDefinition = builder.inputType('NamespaceDefinitionInput', {
  description: 'Changes to a definition. An omitted field stays as it is, and null restores the default.',
  extensions: { check: checks.namespaceDefinition },
  fields: (t) => ({
    timeZone: t.string({
      description: 'The IANA time zone of new counters and sequences. The default is UTC.',
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      extensions: { maxItems: checks.MAX_PERIODS },
      description:
        'All periods whose totals new counters keep, or [] for none. The default is HOUR for 90 days, and DAY and MONTH forever.',
    }),
    leaderboards: t.field({
      type: [Period],
      extensions: { maxItems: checks.MAX_PERIODS },
      description:
        'All periods for which leaderboards of what was added in them are kept: that of the current period, and of the 12 before it. A counter that does not track the period is not on them. Existing counters are added within a minute or so. The default is none.',
    }),
  }),
})

builder.mutationField('defineNamespace', (t) =>
  t.field({
    type: Namespace,
    extensions: {
      right: on('DEFINE', 'all names of the namespace', ({ args }) => ({ namespace: args.name, prefix: '' })),
    },
    description: 'Sets the defaults for new counters and sequences in a namespace.',
    args: {
      name: namespaceName,
      definition: t.arg({ type: NamespaceDefinition, required: true, description: 'The changes.' }),
    },
    resolve: (_, { name, definition }, { nth }) => nth.namespaces.define(name, withZone(definition)),
  }),
)

function retentionOf({ name, retention }: NamespaceSource, { namespaces }: Nth) {
  return retention ?? namespaces.read(name).then((read) => read.retention)
}

function stateOf({ name, retention, leaderboards }: NamespaceSource, { namespaces }: Nth) {
  return retention && leaderboards ? { name, retention, leaderboards } : namespaces.read(name)
}

/**
 * The key of a period's leaderboard; undefined: it does not have all counters yet.
 *
 * @throws {NthError} BAD_USER_INPUT if the namespace does not have it
 */
function leaderboardIn(
  { name, retention, leaderboards }: NamespaceState,
  period: CalendarPeriod,
  at: Date | null | undefined,
  nth: Nth,
) {
  const kept = leaderboards.find((leaderboard) => leaderboard.period === period)
  if (kept) return kept.isFilled ? nth.leaderboard.periodKey(period, retention.timeZone, at) : undefined
  const message = `Namespace ${JSON.stringify(name)} has no leaderboards of the period ${period}. Add it to its leaderboards with defineNamespace.`
  throw new NthError('BAD_USER_INPUT', message, { argument: 'period' })
}
