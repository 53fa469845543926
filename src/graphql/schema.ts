import './apiKey.ts'
import './counter.ts'
import './counterChange.ts'
import './sequence.ts'
import './sequenceNumbers.ts'
import './namespace.ts'
import './subscription.ts'
import './trustedDocument.ts'
import { builder } from './builder.ts'

export const schema = builder.toSchema({ sortSchema: false })
