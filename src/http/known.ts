import type { DocumentNode, GraphQLSchema } from 'graphql'
import { LRUCache } from 'lru-cache'
import { type CompiledOperation, compilableFields } from './compiled.ts'

/** A document that validation found right. */
export interface KnownDocument {
  document: DocumentNode
  /** Whether it may be compiled, once it is used again. */
  isCompilable: boolean
  operation?: CompiledOperation | undefined
}

/** Documents that validation found right, by their text. */
export interface KnownDocuments {
  get(text: string): KnownDocument | undefined
  add(text: string, document: DocumentNode): void
  readonly count: number
}

/** What all that are remembered may take, in bytes: some thousand as clients send them. */
const MAX_BYTES = 32_000_000

const BYTES_A_CHARACTER = 2
/** Measured on Node 20: at most 483. */
const BYTES_A_TOKEN = 500
/** What compiling adds. Measured on Node 20: at most 1 060. */
const BYTES_A_FIELD = 1_500

/**
 * Remembers documents within a bound that no caller can make it cross, however long or full they are. Those
 * that are refused aren't remembered: the messages of their errors may be many times as long as they.
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
