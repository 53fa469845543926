import { builder } from './builder.ts'
import * as checks from './checks.ts'
import { connectionByName } from './connection.ts'
import { Counter } from './counter.ts'

interface NamespaceSource {
  name: string
}

const CounterOrder = builder.enumType('CounterOrder', {
  description: 'Order of counters.',
  values: {
    NAME_ASC: { description: 'By name: by the code points of its characters, so `B` comes before `a`.' },
  },
})

const Namespace = builder.objectRef<NamespaceSource>('Namespace')

builder.node(Namespace, {
  description: 'A room for names.',
  id: { resolve: ({ name }) => name },
  loadManyWithoutCache: (names) => names.map((name) => ({ name })),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Name, exactly as written.' }),
    counters: t.connection(
      {
        type: Counter,
        description: 'Counters that were written, by name.',
        args: {
          prefix: t.arg.string({
            required: true,
            defaultValue: '',
            description: 'Only names that begin with this.',
            validate: checks.textOrEmpty,
          }),
          orderBy: t.arg({
            type: CounterOrder,
            required: true,
            defaultValue: 'NAME_ASC',
            description: 'Order of the list.',
          }),
        },
        validate: checks.page,
        resolve: (namespace, { prefix, ...args }, context, info) =>
          connectionByName(args, context, info, (bounds) =>
            context.nth.counters.list(namespace.name, { prefix, ...bounds }),
          ),
      },
      { name: 'CounterConnection', description: 'A page of a list of counters.' },
      { name: 'CounterEdge', description: 'A counter in a list.' },
    ),
  }),
})

builder.queryField('namespace', (t) =>
  t.field({
    type: Namespace,
    description: 'A namespace: lists of what is in it.',
    args: {
      name: t.arg.string({
        required: true,
        defaultValue: 'default',
        description: 'Name of the namespace.',
        validate: checks.name,
      }),
    },
    resolve: (_, { name }) => ({ name }),
  }),
)
