import type { GraphQLSchema } from 'graphql'
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
