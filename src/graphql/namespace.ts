import type { NamespaceState } from '../repository/namespaces.ts'
import type { Nth } from '../repository/nth.ts'
import type { PageByName } from '../rules/counter.ts'
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
import { CounterEdge, CounterOrder, instantIn, pageOfLeaderboard, periodKeyIn } from './leaderboard.ts'
import { listedByName, namesArguments, pageByName } from './lists.ts'
import { none, on, onAllNames, PREFIXED, toReadIn } from './rights.ts'
import { Sequence } from './sequence.ts'

/** A namespace as read, or its name. What isn't known is read on demand. */
type NamespaceSource = Pick<NamespaceState, 'name'> & Partial<NamespaceState>

const nameOf = ({ name }: { name: string }) => name

const toSeeDefaults = toReadIn(({ parent }) => parent.name, 'DEFINE')

const NULL_DEFAULTS = 'Null only if you may not see the defaults, or if they could not be read.'

const Namespace = builder.objectRef<NamespaceSource>('Namespace')

builder.node(Namespace, {
  description: 'A separate set of names, with defaults for new counters and sequences.',
  id: { resolve: ({ name }) => name },
  loadWithoutCache: (name) => ({ name }),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'The name, exactly as it was written.' }),
    ...parts(t, ({ name }: NamespaceSource, { namespaces }: Nth) => namespaces.read(name), {
      timeZone: [
        orNull('String'),
        `The IANA time zone of new counters and sequences. ${NULL_DEFAULTS}`,
        toSeeDefaults,
      ],
      periods: [
        orNull([TrackedPeriodRef]),
        `The periods whose totals new counters keep. ${NULL_DEFAULTS}`,
        toSeeDefaults,
      ],
      leaderboards: [
        orNull([Period]),
        `The periods for which it has leaderboards of period totals. ${NULL_DEFAULTS}`,
        toSeeDefaults,
      ],
    }),
    counters: t.connection(
      {
        type: Counter,
        nullable: true,
        description:
          'The counters that were changed or defined, as a list or a leaderboard. `prefix` and `contains` require the order NAME_ASC. Null if the namespace has no leaderboards of `period`, or not with all counters yet.',
        args: {
          ...namesArguments,
          orderBy: t.arg({
            type: CounterOrder,
            required: true,
            defaultValue: 'NAME_ASC',
            description: 'The order of the list.',
          }),
          period: t.arg({
            type: Period,
            description:
              'Lists counters by their totals of this period, which must be in `leaderboards`, by the time zone of each counter. It requires the order VALUE_DESC or VALUE_ASC.',
          }),
          at: t.arg({ type: 'DateTime', description: instantIn('namespace') }),
        },
        extensions: {
          check: checks.counterPage,
          right: on('READ', PREFIXED, ({ parent, args: { prefix, orderBy } }) => ({
            namespace: parent.name,
            prefix: orderBy === 'NAME_ASC' ? prefix : '',
          })),
        },
        async resolve({ name }, { orderBy, period, at, ...args }, context, info) {
          const { nth, owner } = context
          if (orderBy === 'NAME_ASC') {
            const list = (page: PageByName) => nth.counters.list(name, page, owner)
            return pageByName<CounterSource>(args, context, info, list, nameOf)
          }
          const periodKey = await periodKeyIn(name, { period, at }, nth)
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
        description:
          'The sequences that were used or defined, by name. Null only if you may not read all names with `prefix`, if they could not be read, or if an argument is invalid.',
        resolve({ name }, args, context, info) {
          const { nth, owner } = context
          return pageByName(args, context, info, (page) => nth.sequences.list(name, page, owner), nameOf)
        },
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
      description: 'Its namespace. Null only if it could not be read.',
      resolve: ({ namespace }) => ({ name: namespace }),
    }),
  )
}

const namespaceName = namespaceArgument('The name of the namespace.')

builder.queryFields((t) => ({
  namespace: t.field({
    type: Namespace,
    extensions: { right: toReadIn(({ args }) => args.name) },
    description: 'Returns a namespace with its defaults, counters and sequences.',
    args: { name: namespaceName },
    resolve: (_, { name }) => ({ name }),
  }),
  namespaces: t.connection(
    {
      ...listedByName(on('READ', 'any name. It lists the namespaces of the grants')),
      type: Namespace,
      description: 'Returns the namespaces that contain a counter or a sequence, by name.',
      resolve(_, args, context, info) {
        const { nth, owner, caller } = context
        const only = namespacesOf(caller, 'READ')
        return pageByName(args, context, info, (page) => nth.namespaces.list(page, only, owner), nameOf)
      },
    },
    { name: 'NamespaceConnection', description: 'A page of namespaces.' },
    { name: 'NamespaceEdge', description: 'A namespace in a list.' },
  ),
}))

const NamespaceDefinition = builder.inputType('NamespaceDefinitionInput', {
  description: 'Changes to a definition. An omitted field stays as it is, and null restores the default.',
  fields: (t) => ({
    timeZone: t.string({
      description: 'The IANA time zone of new counters and sequences. The default is UTC.',
    }),
    periods: t.field({
      type: [TrackedPeriodInput],
      description:
        'All periods whose totals new counters keep, or [] for none. The default is HOUR for 90 days, and DAY and MONTH forever.',
    }),
    leaderboards: t.field({
      type: [Period],
      description:
        'All periods for which leaderboards of period totals are kept: that of the current period, and of the 12 before it. A counter that does not track the period is not on them. Existing counters are added within a minute or so. The default is none.',
    }),
  }),
})

builder.mutationField('defineNamespace', (t) =>
  t.field({
    type: Namespace,
    extensions: {
      right: onAllNames('DEFINE', ({ args }) => args.name),
      audited: ({ name }: NamespaceState) => ({ namespace: name, name: undefined }),
    },
    description: 'Sets the defaults for new counters and sequences in a namespace.',
    args: {
      name: namespaceName,
      definition: t.arg({
        type: NamespaceDefinition,
        required: true,
        description: 'The changes.',
        extensions: { check: checks.namespaceDefinition },
      }),
    },
    resolve: (_, { name, definition }, { nth, owner }) =>
      nth.namespaces.define(name, withZone(definition), owner),
  }),
)
