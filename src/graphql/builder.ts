import SchemaBuilder from '@pothos/core'
import RelayPlugin from '@pothos/plugin-relay'
import { decodeId, encodeId } from './arguments/ids.ts'
import * as checks from './arguments.ts'
import type { Context } from './context.ts'
import { onId, onIds } from './rights.ts'
import { chargeList, room } from './valueBudget.ts'

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
