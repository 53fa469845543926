import { buildClientSchema, getIntrospectionQuery, printSchema } from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { upTo } from '../support/client/client.ts'
import { startService } from '../support/server/service.ts'
import { SHORT_MS, startMeasuredNth } from '../support/server/ticks.ts'

const EVERYTHING = {
  descriptions: true,
  specifiedByUrl: true,
  directiveIsRepeatable: true,
  schemaDescription: true,
  inputValueDeprecation: true,
  oneOf: true,
}

it('introspection: gives tools the whole schema', async () => {
  const { ask } = await startService()
  for (const options of [{}, EVERYTHING]) await ask(getIntrospectionQuery(options))
  const made = buildClientSchema(await ask(getIntrospectionQuery(EVERYTHING)))
  expect(printSchema(made)).toBe(printSchema(schema))
  const type = 'query($name: String!) { __type(name: $name) { name fields { name type { name } } } }'
  expect((await ask(type, { name: 'Counter' })).__type.fields).toContainEqual({
    name: 'name',
    type: { name: null },
  })
})

/** A field under many aliases. */
function many(times: number, field: string): string {
  return upTo(times)
    .map((index) => `a${index}: ${field}`)
    .join(' ')
}

/** All fields of a type's fields' types, some levels deep. */
function deep(levels: number): string {
  return levels === 0 ? 'name' : `name fields { name type { ...T ofType { ${deep(levels - 1)} } } }`
}

it.each([
  [
    'many times',
    `{ __schema { ${many(60, 'types { ...T }')} } }`,
    'fragment T on __Type { name fields { name args { name type { name ofType { name } } } type { name } } }',
  ],
  ['in very many levels', `{ __schema { types { ${deep(30)} } } }`, 'fragment T on __Type { name }'],
  [
    'of fragments within fragments',
    '{ __schema { types { ...F0 } } }',
    `${upTo(12)
      .map((level) => `fragment F${level - 1} on __Type { ...F${level} ... { ...F${level} } }`)
      .join(' ')} fragment F12 on __Type { name }`,
  ],
])('introspection: is refused %s, at once', async (_, query, fragment) => {
  const nth = await startMeasuredNth()
  let times = 0
  const longest = await nth.longestTick(async () => {
    // A new document each time.
    times += 1
    expect(await nth.refusal(`${query} ${fragment} # ${times}`)).toEqual({
      code: 'GRAPHQL_VALIDATION_FAILED',
    })
  })
  expect(longest).toBeLessThan(SHORT_MS)
})
