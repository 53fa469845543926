import type { GraphQLSchema } from 'graphql'
import { hasRoom, untilRoom } from '../core/turns.ts'
import { builder } from './builder.ts'
import { placeErrors } from './fieldError.ts'
import './scalars.ts'
import './errorCode.ts'
import './counter.ts'
import './counterChange.ts'
import './reservation.ts'
import './sequence.ts'
import './sequenceDefinition.ts'
import './sequenceNumbers.ts'
import './namespace.ts'

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })
placeErrors(schema)

/**
 * Fields of an operation that are started at once, so that their reads share one statement. The others wait until a
 * tick has capacity.
 */
const AT_ONCE = 200

const begun = new WeakMap<object, number>()

// Otherwise hundreds of fields that fail without waiting for anything would run in one tick.
for (const root of [schema.getQueryType(), schema.getMutationType()]) {
  for (const field of Object.values(root?.getFields() ?? {})) {
    const { resolve } = field
    if (!resolve) continue
    field.resolve = (parent, args, context, info) => {
      const count = (begun.get(context) ?? 0) + 1
      begun.set(context, count)
      if (count <= AT_ONCE || hasRoom(0)) return resolve(parent, args, context, info)
      return untilRoom(0).then(() => resolve(parent, args, context, info))
    }
  }
}
