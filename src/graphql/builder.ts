import SchemaBuilder from '@pothos/core'
import RelayPlugin from '@pothos/plugin-relay'
import { type ASTNode, GraphQLError, type GraphQLResolveInfo, GraphQLScalarType, Kind } from 'graphql'
import { GraphQLDateTime, GraphQLSafeInt } from 'graphql-scalars'
import { errorCodes } from '../rules/errors.ts'
import { claimOf, keyFault } from '../rules/idempotency.ts'
import * as checks from './arguments.ts'
import { decodeId, encodeId, inputError } from './arguments.ts'
import type { Context } from './context.ts'
import { onId, onIds } from './rights.ts'
import { chargeList, createMeasure, room, sumBelow } from './selections.ts'

export const builder = new SchemaBuilder<{
  Context: Context
  DefaultFieldNullability: false
  DefaultEdgesNullability: false
  DefaultNodeNullability: false
  Scalars: {
    ID: { Input: string; Output: string }
    SafeInt: { Input: number; Output: number }
    /** Output: or milliseconds since 1970. */
    DateTime: { Input: Date; Output: Date | number }
  }
}>({
  plugins: [RelayPlugin],
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
      extensions: { right: onId() },
      args: { id: { description: 'An ID that the API returned.', extensions: { check: checks.id } } },
    },
    nodesQueryOptions: {
      nullable: { list: true, items: true },
      extensions: { right: onIds(checks.ids) },
      description:
        'Returns up to 500 objects by their IDs, in the requested order, with null for each that does not exist.',
      resolve: async (_, { ids }, context, info, resolveNodes) => {
        const lengths = ids.map(({ id }) => id.length)
        // Pothos resolves each of them by itself.
        const values = chargeList(context, 2 * ids.length, info, lengths)
        await room(context, values)
        const nodes = await resolveNodes(ids)
        await room(context, values)
        return nodes
      },
      args: {
        ids: {
          description: 'IDs that the API returned.',
          extensions: { maxItems: checks.MAX_ITEMS, check: checks.ids },
        },
      },
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
    'Queries. A name has 1 to 191 characters, contains no control characters, and is compared exactly.',
})

builder.mutationType({
  description:
    'Mutations, which are executed one after another. A field that fails is null and has an error; the others are still applied. An `idempotencyKey` has 1 to 255 printable ASCII characters. A repeat within 24 hours is not applied again.',
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

builder.enumType('ErrorCode', {
  description:
    'The values of `extensions.code` in an error. Later versions may add more. Treat an unknown one as INTERNAL_SERVER_ERROR.',
  values: described(errorCodes),
})

/** The values of an enum, from their descriptions. */
export function described<Value extends string>(descriptions: Record<Value, string>) {
  const values = Object.entries<string>(descriptions).map(([value, description]) => [value, { description }])
  // `Object.fromEntries` loses the type of the keys.
  return Object.fromEntries(values) as Record<Value, { description: string }>
}

/** Has its own message: this is the first error of clients that send numbers as strings. */
function rejectText(node?: ASTNode): never {
  throw new GraphQLError('SafeInt must be a JSON number, not a string', { nodes: node ?? null })
}

/** A required name. */
export const nameArgument = (description: string) => createArgument(description, checks.name)

/** A namespace, or the default one. */
export const namespaceArgument = (description: string) =>
  createArgument(description, checks.name, { defaultValue: 'default' })

/** A text that may be empty, and is by default. */
export const textArgument = (description: string) =>
  createArgument(description, checks.textOrEmpty, { defaultValue: '' })

/** The arguments that name a counter or a sequence. */
export function keyArguments(type: 'counter' | 'sequence') {
  return {
    name: nameArgument(`The name of the ${type}.`),
    namespace: namespaceArgument(`The namespace of the ${type}.`),
  }
}

function createArgument(description: string, check: typeof checks.name, other?: { defaultValue: string }) {
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

const countRevisions = createMeasure(
  (sum, field, below) => sum + below + (field?.name.value === 'revision' ? 1 : 0),
)

/** Whether the revision of a counter or sequence group is selected anywhere in a mutation's result. */
export const isRevisionSelected = (info: GraphQLResolveInfo) => sumBelow(countRevisions, info) > 0

/** Arguments of a mutation that takes a key. */
export interface KeyedArguments {
  namespace: string
  idempotencyKey?: string | null | undefined
}

/** The options of a call, from its arguments and selection. */
export function callOptions(args: KeyedArguments, context: Context, info: GraphQLResolveInfo) {
  return { claim: claimFor(args, context, info), withRevision: isRevisionSelected(info) }
}

/**
 * Returns the claim of a call with a key, in its arguments or in the request's header. Most calls have none, so the key
 * is checked here: a separate check on the argument made every call 4 % more expensive.
 *
 * @throws {NthError} BAD_USER_INPUT
 */
export function claimFor(args: KeyedArguments, context: Context, info: GraphQLResolveInfo) {
  const key = args.idempotencyKey ?? context.idempotencyKey
  if (key === undefined) return undefined
  const fault = keyFault(key)
  if (fault) throw inputError({ ...fault, path: ['idempotencyKey'] })
  const asked = [info.fieldName, nonDefaultArguments(args, info)]
  return claimOf(args.namespace, key, asked, context.caller.identity)
}

/**
 * The arguments that differ from their defaults. So a key stays valid when a later version adds an argument that a
 * repeated call doesn't send.
 */
function nonDefaultArguments(args: KeyedArguments, { fieldName, parentType }: GraphQLResolveInfo): object {
  const defaults = parentType.getFields()[fieldName]?.args ?? []
  const isDefault = (name: string, value: unknown) =>
    value == null || defaults.some((argument) => argument.name === name && argument.defaultValue === value)
  const { idempotencyKey: _, ...others } = args
  return Object.fromEntries(Object.entries(others).filter(([name, value]) => !isDefault(name, value)))
}
