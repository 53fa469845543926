import type { DocumentNode, GraphQLSchema } from 'graphql'
import { LRUCache } from 'lru-cache'
import { type CompiledOperation, compilableFields } from './compiled.ts'

/** A document that passed validation. */
export interface KnownDocument {
  document: DocumentNode
  /** Whether it may be compiled when it is used again. */
  isCompilable: boolean
  operation?: CompiledOperation | undefined
}

/** Cached documents that passed validation, by their text. */
export interface KnownDocuments {
  get(text: string): KnownDocument | undefined
  add(text: string, document: DocumentNode): void
  readonly count: number
}

/** Maximum memory of the cache, in bytes: a few thousand typical documents. */
const MAX_BYTES = 32_000_000

const BYTES_A_CHARACTER = 2
/** Measured on Node 20: at most 483. */
const BYTES_A_TOKEN = 500
/** Added by compiling. Measured on Node 20: at most 1 060. */
const BYTES_A_FIELD = 1_500

/**
 * Caches documents within a memory limit, however long or large they are. Rejected documents aren't cached: their error
 * messages may be many times as long as they are.
 */
export function openKnownDocuments(schema: GraphQLSchema): KnownDocuments {
  const documents = new LRUCache<string, KnownDocument>({ maxSize: MAX_BYTES })
  return {
    get: (text) => documents.get(text),

    add(text, document) {
      const fields = compilableFields(schema, document)
      const size =
        1 + text.length * BYTES_A_CHARACTER + tokensIn(document) * BYTES_A_TOKEN + fields * BYTES_A_FIELD
      documents.set(text, { document, isCompilable: fields > 0 }, { size })
    },

    get count() {
      return documents.size
    },
  }
}

function tokensIn({ loc }: DocumentNode): number {
  let count = 0
  for (let token = loc?.startToken; token; token = token.next ?? undefined) count += 1
  return count
}
