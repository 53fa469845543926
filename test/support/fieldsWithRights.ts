import { isObjectType } from 'graphql'
import type { Right } from '../../src/graphql/rights.ts'
import { schema } from '../../src/graphql/schema.ts'

/** The fields that require a right, with the name of their type. */
export function fieldsWithRights() {
  const types = Object.values(schema.getTypeMap()).filter(isObjectType)
  return types.flatMap((type) =>
    Object.values(type.getFields()).flatMap((field) => {
      // Only `rights.ts` makes them.
      const right = field.extensions.right as Right | undefined
      return right ? [{ type: type.name, field, right }] : []
    }),
  )
}
