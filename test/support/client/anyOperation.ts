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
} from 'graphql'
import { encodeId } from '../../../src/graphql/arguments.ts'
import { schema } from '../../../src/graphql/schema.ts'

export interface Body {
  query: string
  variables: Record<string, unknown>
}

export const IDS = [
  encodeId('Counter', 'default\nc'),
  encodeId('Counter', 'default\nnone'),
  encodeId('Namespace', 'default'),
  encodeId('Sequence', 'default\ns'),
  encodeId('SequenceGroup', 'default\ns\ng'),
  encodeId('Reservation', '0'.repeat(32)),
  encodeId('ApiKey', '1'),
  'x',
]

/** What arguments are given, by their types or names: good ones, then bad. */
export const values: Record<string, unknown[]> = {
  id: IDS,
  ids: [IDS.slice(0, 7), [], IDS],
  name: ['c', 'm', ''],
  subject: ['ann', 'bob', '', 'x'.repeat(256)],
  above: [2, 0, 51],
  below: [1, 0, -1],
  lowestFirst: [false, true],
  group: ['g', '', 'h'],
  count: [1, 3, 2, 0],
  nextValue: [5, -1, null],
  ttlSeconds: [60, 0],
  names: [['c', 'm', 'c'], ['none'], [], 'c'],
  namespace: ['default', 'other', ''],
  prefix: ['', 'c', 'x'],
  contains: ['', 'C', 'x'],
  orderBy: ['NAME_ASC', 'VALUE_DESC', 'VALUE_ASC', 'UPDATED_AT_DESC'],
  before: ['x', null],
  after: ['x', null],
  first: [2, 0, -1, 501, null],
  last: [1, 501, null],
  delta: [1, -3, Number.MAX_SAFE_INTEGER, 1.5],
  to: [5, 0, '2026-03-29T12:00:00+02:00'],
  expectedValue: [0, 5, 1.5],
  expectedRevision: [1, null],
  forgetSubjects: [false, true, 1],
  documentId: ['none', ''],
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
    { oncePer: 'DAY' },
    { oncePer: null },
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
    { leaderboards: ['WEEK'] },
    { leaderboards: ['DAY', 'DAY'] },
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

export const ENUMS = ['orderBy', 'overflow', 'oncePer', 'leaderboards', 'period', 'restartEvery']

/** A value as it stands in a document, under a name. */
export function literal(value: unknown, name: string): string {
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, name)).join(', ')}]`
  if (value === null || typeof value !== 'object')
    return ENUMS.includes(name) ? String(value) : JSON.stringify(value)
  return `{ ${Object.entries(value)
    .map(([key, part]) => `${key}: ${literal(part, key)}`)
    .join(', ')} }`
}

/**
 * First what counters are made with, then the counters, and the sequences: what mutations may have changed. Counters are
 * made one after another, so that a list in order of their last change is the same each time.
 */
export const SET_BACK = [
  `mutation {
  ${['default', 'other', 'c', 'm']
    .map(
      (name) =>
        `${name}N: defineNamespace(name: "${name}", definition: { timeZone: null, periods: null, leaderboards: null }) { id }`,
    )
    .join('\n  ')}
}`,
  ...['default', 'other'].flatMap((namespace) => [
    `mutation {
  c: deleteCounter(name: "c", namespace: "${namespace}") { value }
  C: reset(name: "c", to: 3, namespace: "${namespace}") { value }
  m: deleteCounter(name: "m", namespace: "${namespace}") { value }
  M: reset(name: "m", namespace: "${namespace}") { value }
}`,
    `mutation { deleteSequence(name: "c", namespace: "${namespace}") { name } }`,
    `mutation { deleteSequence(name: "m", namespace: "${namespace}") { name } }`,
  ]),
]

/** An operation that asks for anything, by any of the ways that the schema allows. */
export function anyOperation(draw: GeneratorValue): Body {
  const definitions: string[] = []
  const variables: Record<string, unknown> = {}
  let names = 0
  // Often few at a time: where many are requested, hardly ever all of them have an answer.
  const odds = draw(() => fc.constantFrom(1, 3, 7))
  const some = <Item>(items: readonly Item[]) => items.filter(() => draw(() => fc.nat({ max: odds })) === 0)

  function argumentText({ name, type, defaultValue }: GraphQLArgument): string {
    const all = values[getNamedType(type).name] ?? values[name] ?? []
    // Usually the first, which is valid: of several invalid ones only one would be reported.
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
        // Their ids are random, or their time is that of the database.
        !['reserveInSequence', 'createApiKey', 'addTrustedDocuments'].includes(field.name) &&
        (depth < 3 || !isCompositeType(getNamedType(field.type))),
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
