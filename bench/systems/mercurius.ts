// The same schema as Nth's, answered from memory by the fastest GraphQL server for Node.
import { readFile } from 'node:fs/promises'
import { GraphQLDateTime, GraphQLSafeInt } from 'graphql-scalars'
import { openMemoryNth } from './memory.ts'
import { serveMercurius } from './serve.ts'

const nth = openMemoryNth()

interface Named {
  name: string
  namespace: string
}

await serveMercurius({
  schema: await readFile(new URL('../../schema/schema.graphql', import.meta.url), 'utf8'),
  resolvers: {
    SafeInt: GraphQLSafeInt,
    DateTime: GraphQLDateTime,
    Query: {
      counters: (_: unknown, { names, namespace }: { names: string[]; namespace: string }) =>
        names.map((name) => nth.counters.read({ namespace, name })),
      sequence: (_: unknown, { name, namespace }: Named) => ({ name, namespace }),
    },
    Sequence: {
      group: ({ name: sequence, namespace }: Named, { name: group }: { name: string }) =>
        nth.sequences.readSequenceGroup({ namespace, sequence, group }),
    },
    Mutation: {
      increment: (_: unknown, { name, namespace }: Named) => nth.counters.incrementBy({ namespace, name }, 1),
      nextInSequence: (
        _: unknown,
        { name, group, count, namespace }: Named & { group: string; count: number },
      ) => nth.sequences.next({ namespace, sequence: name, group }, count),
    },
  },
})
