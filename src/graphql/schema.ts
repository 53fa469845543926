import type { GraphQLSchema } from 'graphql'
import { hasRoom, untilRoom } from '../core/eventLoop/ticks.ts'
import { builder } from './builder.ts'
import { locateErrors } from './fieldError.ts'
import './scalars.ts'
import './errorCode.ts'
import './counters/counter.ts'
import './counters/counterChange.ts'
import './counters/counterDefinition.ts'
import './sequences/sequence.ts'
import './sequences/reservation.ts'
import './sequences/sequenceDefinition.ts'
import './sequences/sequenceNumbers.ts'
import './counters/namespace.ts'

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })
locateErrors(schema)

/**
 * Fields of an operation that are started at once, so that their reads share one statement. The others wait until a
 * tick has capacity.
 */
const AT_ONCE = 200

// Otherwise hundreds of fields that fail without waiting for anything would run in one tick.
for (const root of [schema.getQueryType(), schema.getMutationType()]) {
  for (const field of Object.values(root?.getFields() ?? {})) {
    const { resolve } = field
    if (!resolve) continue
    field.resolve = (parent, args, context, info) => {
      context.startedFields = (context.startedFields ?? 0) + 1
      if (context.startedFields <= AT_ONCE || hasRoom(0)) return resolve(parent, args, context, info)
      return untilRoom(0).then(() => resolve(parent, args, context, info))
    }
  }
}
