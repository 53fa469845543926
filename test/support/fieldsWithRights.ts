import { isObjectType } from 'graphql'
import { schema } from '../../src/graphql/schema.ts'

/** The fields that require a right, with the name of their type. */
export function fieldsWithRights() {
  const types = Object.values(schema.getTypeMap()).filter(isObjectType)
  return types.flatMap((type) =>
    Object.values(type.getFields()).flatMap((field) => {
      const { right } = field.extensions
      return right ? [{ type: type.name, field, right }] : []
    }),
  )
}
