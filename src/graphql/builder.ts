import SchemaBuilder, { type ShapeFromTypeParam, type TypeParam } from '@pothos/core'
import RelayPlugin from '@pothos/plugin-relay'
import { type ASTNode, GraphQLError, GraphQLScalarType, Kind } from 'graphql'
import { GraphQLDateTime, GraphQLSafeInt } from 'graphql-scalars'
import type { Nth } from '../repository/nth.ts'
import { errorCodes } from '../rules/errors.ts'
import { nameFault, textFault } from '../rules/names.ts'
import { subjectFault } from '../rules/subjects.ts'
import * as checks from './arguments.ts'
import { type Check, decodeId, encodeId, idFault } from './arguments.ts'
import type { Context } from './context.ts'
import './fieldPlugin.ts'
import { onId, onIds, type Right } from './rights.ts'
import { chargedList } from './selections.ts'

export const builder = new SchemaBuilder<{
  Context: Context
  DefaultFieldNullability: false
  DefaultEdgesNullability: false
  Scalars: {
    ID: { Input: string; Output: string }
    SafeInt: { Input: number; Output: number }
    /** Output: or milliseconds since 1970. */
    DateTime: { Input: Date; Output: Date | number }
  }
}>({
  plugins: ['fields', RelayPlugin],
  defaultFieldNullability: false,
  relay: {
    encodeGlobalID: (typename, id) => encodeId(typename, String(id)),
    decodeGlobalID: decodeId,
    nodesOnConnection: { description: 'The items, without cursors.' },
    nodeTypeOptions: { description: 'An object that you can read again by its ID.' },
    idFieldOptions: {
      description:
        'An opaque ID, which never changes. A name that is deleted and used again has the same ID.',
    },
    nodeQueryOptions: {
      description: 'Returns an object by its ID, or null if it does not exist.',
      extensions: { right: onId },
      args: { id: { description: 'An ID that the API returned.', extensions: { check: idFault } } },
    },
    nodesQueryOptions: {
      nullable: { list: true, items: true },
      extensions: { right: onIds },
      description:
        'Returns up to 500 objects by their IDs, in the requested order, with null for each that does not exist.',
      // Pothos resolves each of them by itself, which costs as much as another item.
      resolve(_, { ids }, context, info, resolveNodes) {
        const lengths = ids.flatMap(({ id }) => [id.length, 0])
        return chargedList(context, info, lengths, () => resolveNodes(ids))
      },
      args: { ids: { description: 'IDs that the API returned.', extensions: { check: checks.ids } } },
    },
    pageInfoTypeOptions: { description: 'The position of a page in its list.' },
    hasNextPageFieldOptions: {
      description: 'Whether more items follow. To read them, pass `endCursor` as `after`.',
    },
    hasPreviousPageFieldOptions: {
      description:
        'Whether items precede this page. To read them, pass `startCursor` as `before`, with `last`.',
    },
    startCursorFieldOptions: { description: 'The cursor of the first item. Null if the page is empty.' },
    endCursorFieldOptions: { description: 'The cursor of the last item. Null if the page is empty.' },
    pageInfoFieldOptions: { description: 'The position of this page in the list.' },
    edgesFieldOptions: { description: 'The items, each with its cursor.' },
    nodeFieldOptions: { description: 'The item.' },
    cursorFieldOptions: { description: 'The position of this item, for `after` and `before`.' },
    firstArgOptions: {
      description:
        'The number of items from the start, 0 to 500. The default is 50. It cannot be combined with `last`.',
      extensions: { check: checks.pageSize },
    },
    lastArgOptions: {
      description: 'The number of items from the end, 0 to 500. It cannot be combined with `first`.',
      extensions: { check: checks.pageSize },
    },
    afterArgOptions: { description: 'Only items after this cursor.' },
    beforeArgOptions: { description: 'Only items before this cursor.' },
  },
})

builder.queryType({
  description:
    'Queries. A name has 1 to 191 characters, contains no control characters, and is compared exactly. A field that fails is null and has an error; the others are still returned. If a field can also be null for another reason, its description says so. A response has the errors of all root fields, and at most 200 of what is below them.',
})

builder.mutationType({
  description:
    'Mutations, which are executed one after another. A field that fails is null and has an error; the others are still applied. If a field can also be null for another reason, its description says so. An `idempotencyKey` has 1 to 255 printable ASCII characters. A repeat within 24 hours is not applied again.',
})

builder.addScalarType(
  'SafeInt',
  new GraphQLScalarType({
    ...GraphQLSafeInt.toConfig(),
    parseValue: (value) => GraphQLSafeInt.parseValue(typeof value === 'string' ? rejectText() : value),
    parseLiteral: (node, variables) =>
      GraphQLSafeInt.parseLiteral(node.kind === Kind.STRING ? rejectText(node) : node, variables),
    description:
      'An integer from -(2^53-1) to 2^53-1, as a JSON number. Strings and fractions are rejected. In TypeScript, it is a `number`.',
    specifiedByURL: 'https://tc39.es/ecma262/#sec-number.issafeinteger',
  }),
)

builder.addScalarType(
  'DateTime',
  new GraphQLScalarType({
    ...GraphQLDateTime.toConfig(),
    // Serialized here: JSON.stringify, which can't be split across ticks, took ten times as long for many dates.
    serialize: (value) => (value instanceof Date ? value : new Date(Number(value))).toISOString(),
    description:
      'An RFC 3339 timestamp. In results it is in UTC with milliseconds, such as `2026-11-20T23:02:00.000Z`. In arguments it may have any offset. In TypeScript, it is a `string`.',
    specifiedByURL: 'https://scalars.graphql.org/andimarek/date-time.html',
  }),
)

addEnum(
  'ErrorCode',
  'The values of `extensions.code` in an error. Later versions may add more. Treat an unknown one as INTERNAL_SERVER_ERROR.',
  errorCodes,
)

/** Adds an enum, whose values are given with their descriptions. */
export function addEnum<Value extends string>(
  name: string,
  description: string,
  descriptions: Record<Value, string>,
) {
  const values = Object.entries<string>(descriptions).map(([value, description]) => [value, { description }])
  // `Object.fromEntries` loses the type of the keys.
  return builder.enumType(name, {
    description,
    values: Object.fromEntries(values) as Record<Value, { description: string }>,
  })
}

/** Has its own message: this is the first error of clients that send numbers as strings. */
function rejectText(node?: ASTNode): never {
  throw new GraphQLError('SafeInt must be a JSON number, not a string', { nodes: node ?? null })
}

type Types = typeof builder.$inferSchemaTypes
type FieldType = TypeParam<Types>
type FieldBuilder<Source> = PothosSchemaTypes.ObjectFieldBuilder<Types, Source>

/** A field in a table: its type, its description for callers, and its right if it has one. */
type FieldColumn = readonly [type: FieldType | OrNull<FieldType>, description: string, right?: Right]

interface OrNull<Type> {
  orNull: Type
}

/** The type of a field in a table that may be null. */
export function orNull<Type extends FieldType>(type: Type): OrNull<Type> {
  return { orNull: type }
}

/** The columns whose properties have another type, or don't exist, are errors. */
type Fitting<Source, Columns extends Record<string, FieldColumn>> = {
  [Name in keyof Columns]: [Name, Source[Name & keyof Source]] extends [
    keyof Source,
    ValueOf<Columns[Name][0]>,
  ]
    ? FieldColumn
    : never
}

type ValueOf<Type> =
  Type extends OrNull<infer Inner extends FieldType>
    ? ShapeFromTypeParam<Types, Inner, true>
    : Type extends FieldType
      ? ShapeFromTypeParam<Types, Type, false>
      : never

/** A table of fields, each of which is the property of that name. */
export function exposed<Source, Columns extends Record<string, FieldColumn>>(
  t: FieldBuilder<Source>,
  columns: Columns & Fitting<Source, Columns>,
) {
  // The type of the table has checked names and types, of which Pothos expects one.
  return fieldsOf(columns, (name, options) => t.expose(name as never, options as never))
}

/** A table of fields, each of which is a part of a whole. A part that the source itself has is taken from there. */
export function parts<Source, Whole, Columns extends Record<string, FieldColumn>>(
  t: FieldBuilder<Source>,
  wholeOf: (source: Source, nth: Nth) => Whole | Promise<Whole>,
  columns: Columns & Fitting<Whole, Columns>,
) {
  return fieldsOf(columns, (name, options) => {
    // As in `exposed`.
    const part = name as keyof Whole
    const resolve = (source: Source & Partial<Whole>, _: unknown, { nth }: Context) => {
      const known = source[part]
      if (known !== undefined) return known
      const whole = wholeOf(source, nth)
      // A promise only if something is read: a list may have hundreds of items.
      return whole instanceof Promise ? whole.then((read) => read[part]) : whole[part]
    }
    // As in `exposed`.
    return t.field({ ...options, resolve } as never)
  })
}

function fieldsOf<Field>(
  columns: Record<string, FieldColumn>,
  create: (name: string, options: object) => Field,
) {
  const entries = Object.entries(columns).map(([name, [type, description, right]]) => {
    const isNullable = typeof type === 'object' && 'orNull' in type
    const options = { type: isNullable ? type.orNull : type, nullable: isNullable, description }
    return [name, create(name, { ...options, extensions: { right } })] as const
  })
  return Object.fromEntries(entries)
}

export const nameArgument = (description: string) => createArgument(description, nameFault)

export const namespaceArgument = (description: string) =>
  createArgument(description, nameFault, { defaultValue: 'default' })

export const textArgument = (description: string) =>
  createArgument(description, textFault, { defaultValue: '' })

/** The arguments that name a counter or a sequence. */
export function keyArguments(type: 'counter' | 'sequence') {
  return {
    name: nameArgument(`The name of the ${type}.`),
    namespace: namespaceArgument(`The namespace of the ${type}.`),
  }
}

function createArgument(description: string, check: Check<string>, other?: { defaultValue: string }) {
  const options = { required: true, description, extensions: { check }, ...other } as const
  return builder.args((t) => ({ text: t.string(options) })).text
}

/** Argument of every mutation that takes a key. */
export const { idempotencyKey } = builder.args((t) => ({
  idempotencyKey: t.string({
    description:
      'Makes retries safe. The same call with the same key is applied once, and a repeat returns the first result. Use a new text for each action, such as a random UUID. You can also send it as the HTTP header `Idempotency-Key`.',
  }),
}))

export const { subject } = builder.args((t) => ({
  subject: t.string({
    description:
      'Whom to count once, such as a user id: 1 to 255 characters, of which only a hash is stored. A repeated call of the same subject returns the result of the first one. With a key for pages, it has at most 250 characters and is stored as `page:` and the text, so that pages do not reach the subjects of servers. Servers name it with `page:`.',
    extensions: { check: subjectFault },
  }),
}))

export const requiredSubject = (description: string) => createArgument(description, subjectFault)
