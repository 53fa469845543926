import type { Counting } from '../workloads.ts'

/** What a peer does with its rows: those of counters, and those of groups. */
export interface Rows {
  /** Adds 1. Returns the row's new value, which no other call gets. */
  add(kind: Counting['kind'], name: string): Promise<number>
  /** Reads values in the order of the names, by one statement. */
  read(kind: Counting['kind'], names: string[]): Promise<number[]>
}

/** As much of the API as is measured, as a team would write it that needs no more. */
export const typeDefs = /* GraphQL */ `
  type Query {
    counters(names: [String!]!): [Counter!]!
    sequence(name: String!): Sequence!
  }
  type Mutation {
    increment(name: String!): CounterChange
    nextInSequence(name: String!, group: String!): SequenceNumbers
  }
  type Counter {
    name: String!
    value: Int!
  }
  type CounterChange {
    value: Int!
  }
  type Sequence {
    name: String!
    group(name: String!): SequenceGroup!
  }
  type SequenceGroup {
    name: String!
    lastValue: Int
  }
  type SequenceNumbers {
    value: Int!
    formatted: String!
  }
`

export function resolversOf(rows: Rows) {
  return {
    Query: {
      async counters(_: unknown, { names }: { names: string[] }) {
        const values = await rows.read('counter', names)
        return names.map((name, index) => ({ name, value: values[index] }))
      },
      sequence: (_: unknown, { name }: { name: string }) => ({ name }),
    },
    Sequence: {
      async group(_: unknown, { name }: { name: string }) {
        const [lastValue] = await rows.read('group', [name])
        return { name, lastValue }
      },
    },
    Mutation: {
      async increment(_: unknown, { name }: { name: string }) {
        return { value: await rows.add('counter', name) }
      },
      async nextInSequence(_: unknown, { group }: { group: string }) {
        const value = await rows.add('group', group)
        return { value, formatted: `${group}-${value}` }
      },
    },
  }
}
