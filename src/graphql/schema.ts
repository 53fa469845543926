import type { GraphQLSchema } from 'graphql'
import { hasRoom, untilRoom } from '../core/turns.ts'
import { builder } from './builder.ts'
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

// Hundreds of changes in one request, each refused without having waited for anything, would take one turn.
for (const field of Object.values(schema.getMutationType()?.getFields() ?? {})) {
  const { resolve } = field
  if (!resolve) continue
  field.resolve = (...given) => (hasRoom(0) ? resolve(...given) : untilRoom(0).then(() => resolve(...given)))
}
