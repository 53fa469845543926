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
    nodeTypeOptions: { description: 'An object that can be read again by its ID.' },
    idFieldOptions: { description: 'Opaque and stable: one name has one ID, also after deletion and reuse.' },
    nodeQueryOptions: {
      description: 'Returns an object by its ID; null if it does not exist.',
      extensions: { right: onId() },
      args: { id: { description: 'An ID that the API returned.', extensions: { check: checks.id } } },
    },
    nodesQueryOptions: {
      nullable: { list: true, items: true },
      extensions: { right: onIds(checks.ids) },
      description:
        'Returns up to 500 objects by their IDs, in the requested order; null for those that do not exist.',
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
    pageInfoTypeOptions: { description: 'Position of a page in its list.' },
    hasNextPageFieldOptions: {
      description: 'Whether more items follow: request `first` items `after` the endCursor.',
    },
    hasPreviousPageFieldOptions: {
      description: 'Whether items precede this page: request `last` items `before` the startCursor.',
    },
    startCursorFieldOptions: { description: 'Cursor of the first item; null on an empty page.' },
    endCursorFieldOptions: { description: 'Cursor of the last item; null on an empty page.' },
    pageInfoFieldOptions: { description: 'Position of this page in the list.' },
    edgesFieldOptions: { description: 'The items, each with its cursor.' },
    nodeFieldOptions: { description: 'The item.' },
    cursorFieldOptions: { description: 'Position of this item, for `after` and `before`.' },
    firstArgOptions: {
      description: 'Number of items from the start, 0 to 500. Default: 50. Not with `last`.',
      extensions: { check: checks.pageSize },
    },
    lastArgOptions: {
      description: 'Number of items from the end, 0 to 500. Not with `first`.',
      extensions: { check: checks.pageSize },
    },
    afterArgOptions: { description: 'Only items after this cursor.' },
    beforeArgOptions: { description: 'Only items before this cursor.' },
  },
})

builder.queryType({
  description: 'Queries. Names: 1 to 191 characters, no control characters, compared exactly.',
})

builder.mutationType({
  description:
    'Mutations, executed one after another. A failed field returns null and an error; the others still apply. `idempotencyKey`: 1 to 255 printable ASCII characters; a repeat within 24 hours is not applied again.',
})

builder.addScalarType(
  'SafeInt',
  new GraphQLScalarType({
    ...GraphQLSafeInt.toConfig(),
    parseValue: (value) => GraphQLSafeInt.parseValue(typeof value === 'string' ? rejectText() : value),
    parseLiteral: (node, variables) =>
      GraphQLSafeInt.parseLiteral(node.kind === Kind.STRING ? rejectText(node) : node, variables),
    description:
      'Integer from -(2^53-1) to 2^53-1, as a JSON number; strings and fractions are rejected. TypeScript: `number`.',
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
      'RFC 3339 timestamp. Output: UTC with milliseconds, `2026-11-20T23:02:00.000Z`; input: any offset. TypeScript: `string`.',
    specifiedByURL: 'https://scalars.graphql.org/andimarek/date-time.html',
  }),
)

builder.enumType('ErrorCode', {
  description:
    'All values of `extensions.code`. More may be added: treat unknown ones as INTERNAL_SERVER_ERROR.',
  values: errorCodes,
})

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
    name: nameArgument(`Name of the ${type}.`),
    namespace: namespaceArgument(`Namespace of the ${type}.`),
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
      'Makes retries safe: the same call with the same key is applied once, and a repeat returns the first result. Any text that is unique to one action, such as a random UUID; also as the HTTP header `Idempotency-Key`.',
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
