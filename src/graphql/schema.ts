import './counter.ts'
import './counterChange.ts'
import './hold.ts'
import './sequence.ts'
import './sequenceNumbers.ts'
import './namespace.ts'
import './subscription.ts'
import './apiKey.ts'
import './trustedDocument.ts'
import { GraphQLSchema } from 'graphql'
import { builder } from './builder.ts'

const built = builder.toSchema({ sortSchema: false })

/** Types and root fields are in the order of the imports above: what most callers need comes first. */
export const schema = new GraphQLSchema({
  ...built.toConfig(),
  description:
    'Counters and sequences. `increment` adds 1 to a counter and returns your own number, and `nextInSequence` issues the next number of a sequence, such as MYBOARD-1. Any valid name can be used at once; nothing has to be created first.',
})
