import type { Nth } from '../repository/nth.ts'
import type { LeaderboardEntry, Page, Retention } from '../rules/counter.ts'
import { namespacesOf } from '../rules/rights.ts'
import * as checks from './arguments.ts'
import { builder, namespaceArgument, orNull, parts } from './builder.ts'
import { Counter, type CounterSource, TrackedPeriodInput, TrackedPeriodRef, withZone } from './counter.ts'
import {
  connectionOf,
  type LeaderboardPosition,
  leaderboardCursors,
  listedByName,
  pageByName,
  prefix,
} from './lists.ts'
import { inNamespace, none, on, PREFIXED } from './rights.ts'
import { Sequence } from './sequence.ts'

/** A namespace. Its retention is read on demand if it isn't known. */
interface NamespaceSource {
  name: string
  retention?: Retention
}

/** Adds ranks, counted from the cursor. Pages listed from the end have them only with a `before` cursor. */
function withRanks(
  counters: readonly LeaderboardEntry[],
  { after, before, fromEnd }: Page<LeaderboardPosition>,
) {
  const start = fromEnd ? before?.rank : after ? after.rank : 0
  const step = fromEnd ? -1 : 1
  return counters.map(({ sortKey, listedValue, ...counter }, index) => {
    const rank = start === undefined ? 0 : start + step * (index + 1)
    // More counters may precede it now than when the cursor was created.
    const position = { ...sortKey, rank: rank > 0 ? rank : undefined }
    return { ...counter, listed: { value: listedValue, position } }
  })
}

const CounterOrder = builder.enumType('CounterOrder', {
  description: 'The order of a list of counters.',
  values: {
    NAME_ASC: { description: 'By name, in code point order: `B` comes before `a`.' },
    VALUE_DESC: { description: 'Highest value first. The list may be about a second behind.' },
    VALUE_ASC: { description: 'Lowest value first. The list may be about a second behind.' },
    UPDATED_AT_DESC: {
      description:
        'Latest change first, and counters that never changed last. The list may be about a second behind.',
    },
  },
})

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
    counters: t.connection(
      {
        type: Counter,
        nullable: true,
        description:
          'The counters that were changed or defined, as a list or a leaderboard. `prefix` requires the order NAME_ASC.',
        args: {
          prefix,
          orderBy: t.arg({
            type: CounterOrder,
            required: true,
            defaultValue: 'NAME_ASC',
            description: 'The order of the list.',
          }),
        },
        extensions: {
          check: checks.counterPage,
          right: on('READ', PREFIXED, ({ parent, args: { prefix, orderBy } }) => ({
            namespace: parent.name,
            prefix: orderBy === 'NAME_ASC' ? prefix : '',
          })),
        },
        resolve({ name }, { orderBy, ...args }, context, info) {
          const { counters } = context.nth
          if (orderBy === 'NAME_ASC')
            return pageByName<CounterSource>(args, context, info, (page) => counters.list(name, page))
          const cursors = leaderboardCursors[orderBy]
          const list = async (page: Page<LeaderboardPosition>) =>
            withRanks(await counters.listLeaderboard(name, { order: orderBy, ...page }), page)
          return connectionOf(args, context, info, cursors, list, ({ listed }) => listed.position)
        },
      },
      { name: 'CounterConnection', description: 'A page of counters.' },
      {
        name: 'CounterEdge',
        description: 'A counter in a list.',
        fields: (t) => ({
          rank: t.int({
            nullable: true,
            description:
              'The position in this order, starting at 1, counted from the cursor. Null if the order is by name, or if the position is unknown.',
            resolve: ({ node }) => node.listed?.position.rank ?? null,
          }),
          value: t.field({
            type: 'SafeInt',
            description: 'The value in the list. It may be a second older than `node.value`.',
            resolve: ({ node }) => node.listed?.value ?? node.value,
          }),
        }),
      },
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
