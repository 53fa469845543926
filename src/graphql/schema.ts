import type { GraphQLSchema } from 'graphql'
import { builder } from './builder.ts'
import './scalars.ts'
import './errorCode.ts'
import './counter.ts'
import './counterChange.ts'
import './sequence.ts'
import './namespace.ts'

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })
