import {
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  printSchema,
} from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../src/graphql/schema.ts'
import { errorCodes } from '../src/rules/errors.ts'
import { introspectionTypes } from './support/client/clientsPage.ts'

it('schema: is recorded in schema/schema.graphql (npm run schema)', async () => {
  await expect(`${printSchema(schema)}\n`).toMatchFileSnapshot('../schema/schema.graphql')
})

it('schema: has types for the example with gql.tada (npm run schema)', async () => {
  await expect(await introspectionTypes()).toMatchFileSnapshot('../examples/react-urql/graphql-env.d.ts')
})

it('schema: describes every type, field, argument and enum value', () => {
  expect(undescribed(schema)).toEqual([])
})

it('ErrorCode: lists every error code', () => {
  const type = schema.getType('ErrorCode')
  const names = isEnumType(type) ? type.getValues().map(({ name }) => name) : []
  expect(names).toEqual(Object.keys(errorCodes))
})

it('mutations: return null for a refused change, so that the others still take effect', () => {
  const fields = Object.values(schema.getMutationType()?.getFields() ?? {})
  expect(fields.map(({ type }) => String(type)).filter((type) => type.endsWith('!'))).toEqual([])
})

function undescribed({ getTypeMap }: GraphQLSchema): string[] {
  const missing: string[] = []
  const look = (path: string, { description }: { description?: string | null | undefined }) => {
    if (!description?.trim()) missing.push(path)
  }
  for (const type of Object.values(getTypeMap.call(schema))) {
    if (type.name.startsWith('__') || ['String', 'Int', 'Boolean', 'ID', 'Float'].includes(type.name))
      continue
    look(type.name, type)
    if (isEnumType(type)) for (const value of type.getValues()) look(`${type.name}.${value.name}`, value)
    if (isInputObjectType(type)) {
      for (const field of Object.values(type.getFields())) look(`${type.name}.${field.name}`, field)
    }
    if (!isObjectType(type) && !isInterfaceType(type)) continue
    for (const field of Object.values(type.getFields())) {
      look(`${type.name}.${field.name}`, field)
      for (const argument of field.args) look(`${type.name}.${field.name}(${argument.name})`, argument)
    }
  }
  return missing
}
