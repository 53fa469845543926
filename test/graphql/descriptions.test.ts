import { type GraphQLOutputType, getNullableType, isListType, isNullableType, isObjectType } from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'

const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]

const objects = Object.values(schema.getTypeMap())
  .filter(isObjectType)
  .filter(({ name }) => !name.startsWith('__'))

const hasNullItems = (type: GraphQLOutputType) => {
  const list = getNullableType(type)
  return isListType(list) && isNullableType(list.ofType)
}

it('descriptions: say of each field and item that may be null when it is', () => {
  const silent = objects.flatMap((type) => {
    // Root fields are null if they fail: the description of their type says so, but not of the items of a list.
    const isRoot = roots.includes(type)
    return Object.values(type.getFields())
      .filter((field) => (isRoot ? hasNullItems(field.type) : isNullableType(field.type)))
      .filter(({ description }) => !/\bnull\b/i.test(description ?? ''))
      .map(({ name }) => `${type}.${name}`)
  })
  expect(silent).toEqual([])
  for (const root of roots) expect(root?.description).toMatch(/\bnull\b/i)
})

it('descriptions: begin with the whole, and mutations with what most callers need', () => {
  expect(schema.description).toContain('`increment`')
  expect(Object.keys(schema.getMutationType()?.getFields() ?? {})[0]).toBe('increment')
})
