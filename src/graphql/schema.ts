import { type GraphQLSchema, getNullableType, isListType } from 'graphql'
import { enforceAccess } from './access/enforce.ts'
import './apiKey.ts'
import { checkArguments } from './arguments.ts'
import { builder } from './builder.ts'
import { locateErrors } from './fieldError.ts'
import './leafTypes.ts'
import './counter.ts'
import './counterChange.ts'
import './sequence.ts'
import './reservation.ts'
import './sequenceNumbers.ts'
import './namespace.ts'
import './subscription.ts'
import { charge, room, SMALL } from './valueBudget.ts'

/** Cost of a field of an operation, in values: hundreds that fail at once must not run in one tick. */
const VALUES_OF_A_FIELD = 4
/** Work of the checks of an item in a list argument, in values. */
const VALUES_OF_AN_ARGUMENT = 4

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })

// What is wrapped first is called last: a field that is refused checks no arguments.
checkArguments(schema)
enforceAccess(schema)
for (const root of [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]) {
  for (const field of Object.values(root?.getFields() ?? {})) {
    // A field that fails is null, and the others still apply.
    field.type = getNullableType(field.type)
    const { resolve } = field
    if (!resolve) continue
    const lists = field.args.filter(({ type }) => isListType(getNullableType(type)))
    field.resolve = (parent, args, context, info) => {
      let items = 0
      for (const { name } of lists) items += args[name]?.length ?? 0
      context.spentValues = (context.spentValues ?? 0) + VALUES_OF_A_FIELD
      // An increment needs nothing of what follows.
      if (items === 0 && context.spentValues <= SMALL) return resolve(parent, args, context, info)
      charge(context, 0)
      const wait = room(context, VALUES_OF_A_FIELD + items * VALUES_OF_AN_ARGUMENT)
      return wait
        ? wait.then(() => resolve(parent, args, context, info))
        : resolve(parent, args, context, info)
    }
  }
}
locateErrors(schema)
