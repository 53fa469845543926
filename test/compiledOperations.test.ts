import fc, { type GeneratorValue } from 'fast-check'
import {
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInterfaceType,
  type GraphQLObjectType,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  parse,
  print,
  visit,
} from 'graphql'
import { expect, it } from 'vitest'
import { encodeId } from '../src/graphql/arguments/ids.ts'
import { schema } from '../src/graphql/schema.ts'
import { compilableFields } from '../src/http/graphql/compileOperation.ts'
import { startFront } from './support/front.ts'
import { runSize } from './support/random.ts'

interface Body {
  query: string
  variables: Record<string, unknown>
}

const IDS = [
  encodeId('Counter', 'default\nc'),
  encodeId('Counter', 'default\nnone'),
  encodeId('Namespace', 'default'),
  encodeId('Sequence', 'default\ns'),
  encodeId('SequenceGroup', 'default\ns\ng'),
  encodeId('Reservation', '0'.repeat(32)),
  'x',
]

/** What arguments are given, by their types or names: good ones, then bad. */
const values: Record<string, unknown[]> = {
  id: IDS,
  ids: [IDS.slice(0, 5), [], IDS],
  name: ['c', 'm', ''],
  group: ['g', '', 'h'],
  count: [1, 3, 2, 0],
  nextValue: [5, -1, null],
  ttlSeconds: [60, 0],
  names: [['c', 'm', 'c'], ['none'], [], 'c'],
  namespace: ['default', 'other', ''],
  prefix: ['', 'c', 'x'],
  orderBy: ['NAME_ASC', 'VALUE_DESC', 'VALUE_ASC', 'UPDATED_AT_DESC'],
  before: ['x', null],
  after: ['x', null],
  first: [2, 0, -1, 501, null],
  last: [1, 501, null],
  delta: [1, -3, Number.MAX_SAFE_INTEGER, 1.5],
  to: [5, 0, '2026-03-29T12:00:00+02:00'],
  DateTime: ['2026-03-29T12:00:00+02:00', '2026-03-28T23:00:00Z', '2026-02-27T00:00:00Z', 0],
  period: ['HOUR', 'DAY', 'WEEK', 'YEAR'],
  changes: [
    [{ name: 'c', delta: 2 }, { name: 'm' }],
    [{ name: 'c' }, { name: 'c', delta: -1 }],
    [{ name: 'c' }, { name: 'c', delta: Number.MAX_SAFE_INTEGER }],
    [{ name: '' }],
    [],
    { name: 'm' },
    [[{ name: 'c' }]],
  ],
  CounterDefinitionInput: [
    { maxValue: 4 },
    { minValue: 1, maxValue: null },
    { overflow: 'SATURATE' },
    { timeZone: 'europe/berlin', periods: [{ period: 'HOUR', keepDays: 7 }, { period: 'WEEK' }] },
    { timeZone: null, periods: null, slots: null },
    { slots: 2, minValue: null, maxValue: null },
    {},
    { slots: 1025, timeZone: 'Nowhere/Land', periods: [{ period: 'DAY', keepDays: 0 }, { period: 'DAY' }] },
    { minValue: 2, maxValue: 1 },
    { format: '{value}' },
    [],
  ],
  NamespaceDefinitionInput: [
    { timeZone: 'Asia/Tokyo' },
    { periods: [] },
    { periods: null },
    {},
    { slots: 2 },
  ],
  SequenceDefinitionInput: [
    { startValue: 2, step: 3, minValue: 1, maxValue: 9, cycle: true },
    { format: '{group}:{value:3}', timeZone: 'Asia/Tokyo', gapless: false },
    { format: 'x{value}', restartEvery: 'DAY', allowRepeats: true },
    {},
    { format: '{vlue}', restartEvery: null },
    { overflow: 'ERROR' },
  ],
  // A good one would be remembered from one try to the next.
  idempotencyKey: [null, '', 'ü'],
}

const ENUMS = ['orderBy', 'overflow', 'period', 'restartEvery']

/** A value as it stands in a document, under a name. */
function literal(value: unknown, name: string): string {
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, name)).join(', ')}]`
  if (value === null || typeof value !== 'object')
    return ENUMS.includes(name) ? String(value) : JSON.stringify(value)
  return `{ ${Object.entries(value)
    .map(([key, part]) => `${key}: ${literal(part, key)}`)
    .join(', ')} }`
}

/** First what counters are made with, then the counters, and the sequences: what mutations may have changed. */
const SET_BACK = [
  `mutation {
  ${['default', 'other', 'c', 'm']
    .map(
      (name) =>
        `${name}N: defineNamespace(name: "${name}", definition: { timeZone: null, periods: null }) { id }`,
    )
    .join('\n  ')}
}`,
  ...['default', 'other'].flatMap((namespace) => [
    `mutation {
  c: deleteCounter(name: "c", namespace: "${namespace}") { value }
  C: reset(name: "c", to: 3, namespace: "${namespace}") { value }
}`,
    `mutation {
  m: deleteCounter(name: "m", namespace: "${namespace}") { value }
  M: reset(name: "m", namespace: "${namespace}") { value }
}`,
    `mutation { deleteSequence(name: "c", namespace: "${namespace}") { name } }`,
    `mutation { deleteSequence(name: "m", namespace: "${namespace}") { name } }`,
  ]),
]

/** An operation that asks for anything, by any of the ways that the schema allows. */
function anyOperation(draw: GeneratorValue): Body {
  const definitions: string[] = []
  const variables: Record<string, unknown> = {}
  let names = 0
  // Few at a time rather often: where many are asked for, hardly ever all of them have an answer.
  const odds = draw(() => fc.constantFrom(1, 1, 3))
  const some = <Item>(items: readonly Item[]) => items.filter(() => draw(() => fc.nat({ max: odds })) === 0)

  function argumentText({ name, type, defaultValue }: GraphQLArgument): string {
    const all = values[getNamedType(type).name] ?? values[name] ?? []
    // Rather a good one, of which the first is: of several bad ones only one would be told.
    const value = draw(() => fc.constantFrom(...all, ...Array(3 * all.length).fill(all[0])))
    const isLiteral = draw(fc.boolean)
    if (isLiteral) return `${name}: ${literal(value, name)}`
    const variable = `v${names++}`
    const isLoose = defaultValue !== undefined && draw(fc.boolean)
    definitions.push(`$${variable}: ${isLoose ? String(type).replace(/!$/, '') : type}`)
    const given = draw(() => fc.constantFrom(...Array(30).fill(value), null, undefined, 5))
    if (given !== undefined) variables[variable] = given
    return `${name}: $${variable}`
  }

  function fieldText(field: GraphQLField<unknown, unknown>, depth: number): string {
    const { name, args, type } = field
    const given = args.filter(
      ({ type, defaultValue }) =>
        (String(type).endsWith('!') && defaultValue === undefined) || draw(() => fc.nat({ max: 2 })) === 0,
    )
    const alias = args.length > 0 || draw(() => fc.nat({ max: 4 })) === 0 ? `a${names++}: ` : ''
    const list = given.length > 0 ? `(${given.map(argumentText).join(', ')})` : ''
    const inner = getNamedType(type)
    const beneath = isObjectType(inner) || isInterfaceType(inner) ? selectionText(inner, depth + 1) : ''
    return `${alias}${name}${list} ${beneath}`
  }

  function selectionText(type: GraphQLObjectType | GraphQLInterfaceType, depth: number): string {
    const fields = Object.values(type.getFields()).filter(
      (field) =>
        // The ids of reservations are random.
        field.name !== 'reserveInSequence' && (depth < 3 || !isCompositeType(getNamedType(field.type))),
    )
    const texts = some(fields).map((field) => fieldText(field, depth))
    if (isInterfaceType(type)) {
      const possible = schema.getPossibleTypes(type)
      texts.push(...some(possible).map((one) => `... on ${one.name} ${selectionText(one, depth + 1)}`))
    }
    if (texts.length === 0 || draw(fc.boolean)) texts.push('__typename')
    return draw(fc.boolean) || isInterfaceType(type)
      ? `{ ${texts.join(' ')} }`
      : `{ ... on ${type.name} { ${texts.join(' ')} } }`
  }

  const isMutation = draw(fc.boolean)
  const root = isMutation ? schema.getMutationType() : schema.getQueryType()
  const selection = root ? selectionText(root, 0) : ''
  const head = definitions.length > 0 ? `(${definitions.join(', ')})` : ''
  return { query: `${isMutation ? 'mutation' : 'query'} Any${head} ${selection}`, variables }
}

const OPERATIONS = runSize({ fast: 30, normal: 75, long: 300 })

it('answers any operation as the executor does, when it is compiled', async () => {
  const { post, ask, faults } = await startFront()
  const [namespaces = '', ...rest] = SET_BACK
  const setBack = async () => {
    await ask(namespaces)
    await Promise.all(rest.map((query) => ask(query)))
  }
  let compiled = 0
  const seen = { data: 0, partly: 0, refused: 0 }
  await setBack()
  await fc.assert(
    fc.asyncProperty(fc.gen(), async (draw) => {
      const { query, variables } = anyOperation(draw)
      if (compilableFields(schema, parse(query)) > 0) compiled += 1
      const answers: Answer[] = []
      // A document is executed as it is when it is new, and compiled from then on.
      for (const text of [query, query, query, `${query} #`]) {
        const { status, body } = await post(JSON.stringify({ query: text, variables }))
        if (query.startsWith('mutation')) await setBack()
        answers.push({ status, ...withoutTimes(body) })
        if (body.data == null) seen.refused += 1
        else seen[body.errors ? 'partly' : 'data'] += 1
      }
      const [first, ...others] = answers.map(comparable)
      for (const answer of others)
        expect({ query, variables, ...answer }).toEqual({ query, variables, ...first })
      // Of several errors that leave the same place empty one is told, by the executor perhaps another.
      const executed = [answers[0], answers.at(-1)].flatMap((answer) => answer?.errors ?? [])
      for (const error of new Set(answers.flatMap(({ errors }) => errors))) {
        if (executed.includes(error)) continue
        const alone = onlyAt(JSON.parse(error).path ?? [], query)
        const { body } = await post(JSON.stringify({ query: alone, variables }))
        if (query.startsWith('mutation')) await setBack()
        const told = withoutTimes(body).errors.map(withoutLocations)
        const expected = expect.arrayContaining([withoutLocations(error)])
        expect({ query, variables, alone, told }).toEqual({ query, variables, alone, told: expected })
      }
    }),
    { numRuns: OPERATIONS, endOnFailure: true },
  )

  expect(faults).toEqual([])
  expect(compiled).toBeGreaterThan(OPERATIONS / 3)
  for (const [what, times] of Object.entries(seen)) {
    expect([what, times > OPERATIONS / 3]).toEqual([what, true])
  }
})

interface Answer {
  status: number
  data?: unknown
  errors: string[]
}

/**
 * An answer without what depends on what is read first: of several errors that leave the same place empty, one is
 * enough, whichever is told. An error of what is empty itself is always told.
 */
function comparable({ errors, ...answer }: Answer) {
  const told = errors.map((error) => {
    const path: (string | number)[] = JSON.parse(error).path ?? []
    let value = answer.data
    let depth = 0
    // What is there of an answer is an object, or a list.
    while (value != null && depth < path.length)
      value = (value as Record<string, unknown>)[path[depth++] ?? '']
    return depth === path.length ? error : `nothing at ${path.slice(0, depth).join()}`
  })
  return { ...answer, errors: [...new Set(told)].toSorted() }
}

/**
 * An operation without what isn't on the way to a place or beneath it, with which it can have no error but that place's.
 * The fields of a mutation stay, as each is met with what those before it have done.
 */
function onlyAt(path: readonly (string | number)[], query: string): string {
  const keys = path.filter((key) => typeof key === 'string')
  const used = new Set<string>()
  let depth = 0
  const without = visit(parse(query), {
    Field: {
      enter({ alias, name }) {
        if (depth < keys.length && (alias ?? name).value !== keys[depth])
          return depth === 0 && query.startsWith('mutation') ? false : null
        depth += 1
      },
      leave() {
        depth -= 1
      },
    },
    InlineFragment: {
      leave: ({ selectionSet }) => (selectionSet.selections.length === 0 ? null : undefined),
    },
  })
  visit(without, {
    VariableDefinition: () => false,
    Variable: ({ name }) => void used.add(name.value),
  })
  return print(
    visit(without, { VariableDefinition: ({ variable }) => (used.has(variable.name.value) ? false : null) }),
  )
}

/** An error, as it is in a document with less before it. */
function withoutLocations(error: string): unknown {
  return { ...JSON.parse(error), locations: null }
}

/** An answer without its instants, and with its errors in one order: fields are done at once. */
function withoutTimes(body: { errors?: { path?: unknown }[] }) {
  const { errors = [], ...rest } = JSON.parse(
    JSON.stringify(body)
      .replace(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"then"')
      .replace(/\b\d{15}\b/g, '"a revision"')
      .replace(/"(Cj4|Cjw|CnQ)[\w-]+"/g, '"a place by value or change"'),
  )
  return { ...rest, errors: errors.map((error: unknown) => JSON.stringify(error)).toSorted() }
}

it('answers a field by any name, also one that JavaScript keeps for itself', async () => {
  const { post } = await startFront()
  const names = ['then', 'constructor', 'hasOwnProperty', 'toString', 'valueOf', '__proto__', 'length']
  const asked = names.flatMap((_, index) => [names.slice(0, index + 1), names.slice(index)])
  for (const some of [...asked, ['then'], ['then']]) {
    const query = `{ ${some.map((name) => `${name}: __typename`).join(' ')} }`
    const { status, body } = await post(JSON.stringify({ query }))
    expect([status, JSON.stringify(body.data)]).toEqual([200, `{${some.map((name) => `"${name}":"Query"`)}}`])
  }
})

it.each([
  [
    'what clients send for one',
    'mutation A($n: String!) { increment(name: $n) { ...F } } fragment F on CounterChange { value }',
    2,
  ],
  [
    'a variable that may be null, as its argument',
    'query($a: String) { namespace { counters(after: $a) { nodes { name } } } }',
    4,
  ],
])('compiles %s', (_, query, fields) => {
  expect(compilableFields(schema, parse(query))).toBe(fields)
})

it.each([
  ['a default value', 'query($n: String = "c") { counter(name: $n) { value } }'],
  ['a directive', '{ counter(name: "c") { value @skip(if: true) name } }'],
  ['a variable within a list', 'query($n: String!) { counters(names: ["c", $n]) { value } }'],
  [
    'a variable that may be null where an argument may not',
    'query($n: String) { counter(name: "c", namespace: $n) { value } }',
  ],
  ['two operations', 'query A { __typename } query B { __typename }'],
  ['the schema itself', '{ __schema { queryType { name } } }'],
  ['a name that JavaScript keeps', '{ __proto__: __typename }'],
  ['very many fields', `{ ${'__typename '.repeat(201)} }`],
  ['only a fragment', 'fragment F on Query { __typename }'],
])('leaves %s to the executor', (_, query) => {
  expect(compilableFields(schema, parse(query))).toBe(0)
})
