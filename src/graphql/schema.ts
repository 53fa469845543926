import { type GraphQLSchema, getNullableType } from 'graphql'
import { hasRoom, untilRoom } from '../core/eventLoop/ticks.ts'
import { enforceAccess } from './access/enforce.ts'
import './access/apiKey.ts'
import { checkArguments } from './arguments/checkArguments.ts'
import { builder } from './builder.ts'
import { locateErrors } from './fieldError.ts'
import './leafTypes.ts'
import './counters/counter.ts'
import './counters/counterChange.ts'
import './counters/counterDefinition.ts'
import './sequences/sequence.ts'
import './sequences/reservation.ts'
import './sequences/sequenceDefinition.ts'
import './sequences/sequenceNumbers.ts'
import './counters/namespace.ts'
import './subscription.ts'

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })

/** Fields of an operation, with the items in their lists, that are started at once, so that their reads share a statement. */
const AT_ONCE = 200

// What is wrapped first is called last: a field that is refused checks no arguments.
checkArguments(schema)
enforceAccess(schema)
for (const root of [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]) {
  for (const field of Object.values(root?.getFields() ?? {})) {
    // A field that fails is null, and the others still apply.
    field.type = getNullableType(field.type)
    const { resolve } = field
    if (!resolve) continue
    // Otherwise hundreds of fields that fail at once, or that check long lists, would run in one tick.
    field.resolve = (parent, args, context, info) => {
      const isFirst = context.startedItems === undefined
      const items = isFirst ? 0 : listItems(args)
      context.startedItems = (context.startedItems ?? 0) + 1 + items
      if (isFirst || context.startedItems <= AT_ONCE || hasRoom(items))
        return resolve(parent, args, context, info)
      return untilRoom(items).then(() => resolve(parent, args, context, info))
    }
  }
}
locateErrors(schema)

/** Number of items in the lists among a field's arguments. */
function listItems(args: object): number {
  return Object.values(args).reduce(
    (items, value) => (Array.isArray(value) ? items + value.length : items),
    0,
  )
}
