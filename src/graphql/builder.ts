import SchemaBuilder from '@pothos/core'
import RelayPlugin from '@pothos/plugin-relay'
import ValidationPlugin from '@pothos/plugin-validation'
import type { Nth } from '../core/nth.ts'
import { inTurns } from '../core/turns.ts'
import { spend, spendTexts } from './budget.ts'
import * as checks from './checks.ts'
import { fieldsBeneath } from './fieldCount.ts'
import { decodeId, encodeId } from './ids.ts'
import { inputError } from './inputError.ts'

/** What resolvers get beside their arguments. */
export interface Context {
  nth: Nth
  /** The key that came in the header of the request. */
  idempotencyKey?: string | undefined
}

export const builder = new SchemaBuilder<{
  Context: Context
  DefaultFieldNullability: false
  DefaultEdgesNullability: false
  DefaultNodeNullability: false
  Scalars: {
    ID: { Input: string; Output: string }
    SafeInt: { Input: number; Output: number }
    DateTime: { Input: Date; Output: Date }
  }
}>({
  plugins: [RelayPlugin, ValidationPlugin],
  defaultFieldNullability: false,
  relay: {
    encodeGlobalID: (typename, id) => encodeId(typename, String(id)),
    decodeGlobalID: decodeId,
    nodesOnConnection: { description: 'The items themselves, without their cursors.' },
    nodeTypeOptions: { description: 'Something that can be read again by its id.' },
    idFieldOptions: { description: 'Opaque and stable: one name, one id, also after deletion and reuse.' },
    nodeQueryOptions: {
      description: 'Reads anything again by its id.',
      args: { id: { description: 'The id, as another answer gave it.', validate: checks.id } },
    },
    nodesQueryOptions: {
      nullable: { list: true, items: true },
      description: 'Reads up to 500 again, in the order asked for.',
      resolve: async (_, { ids }, context, info, resolveNodes) => {
        spend(context, ids.length, info)
        const lengths = ids.map(({ id }) => id.length)
        spendTexts(context, lengths, info)
        return inTurns(await resolveNodes(ids), fieldsBeneath(info))
      },
      args: {
        ids: {
          description: 'The ids, as other answers gave them.',
          ...checks.holds(checks.MAX_ITEMS),
          validate: checks.ids,
        },
      },
    },
    pageInfoTypeOptions: { description: 'Where a page lies in its list.' },
    hasNextPageFieldOptions: {
      description: 'Whether more follows: ask for `first` items `after` the endCursor.',
    },
    hasPreviousPageFieldOptions: {
      description: 'Whether more comes before: ask for `last` items `before` the startCursor.',
    },
    startCursorFieldOptions: { description: 'Cursor of the first item of this page.' },
    endCursorFieldOptions: { description: 'Cursor of the last item of this page.' },
    pageInfoFieldOptions: { description: 'Where this page lies in the list.' },
    edgesFieldOptions: { description: 'The items, each with its cursor.' },
    nodeFieldOptions: { description: 'The item.' },
    cursorFieldOptions: { description: 'The place of this item, for `after` and `before`.' },
    firstArgOptions: {
      description: 'How many, from the start: up to 500, by default 50. Not with `last`.',
      validate: checks.pageSize,
    },
    lastArgOptions: {
      description: 'How many, from the end: up to 500. Not with `first`.',
      validate: checks.pageSize,
    },
    afterArgOptions: { description: 'Only what follows this cursor.' },
    beforeArgOptions: { description: 'Only what comes before this cursor.' },
  },
  validation: { validationError: inputError },
})

builder.queryType({
  description: 'Reads. Names: 1 to 191 characters, no control characters, compared exactly.',
})

builder.mutationType({
  description:
    'Writes, done one after another. A refused field is null beside its error; the others stand. `idempotencyKey`: 1 to 255 printable ASCII characters; a repeat within 24 hours counts once.',
})
