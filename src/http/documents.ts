import { type DocumentNode, GraphQLError, parse } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'

/**
 * The longest document, in tokens: 600 aliased fields with their arguments, or `incrementMany` of 1 000.
 * Some validation rules take time in proportion to its square.
 */
const MAX_TOKENS = 10_000

/** What documents and their errors may take in the caches, in characters of their text. */
const CACHED_CHARACTERS = 2_000_000

/** Refuses documents that would be too much work, as syntax errors. */
export const documents: Plugin = {
  onParse({ setParseFn }) {
    setParseFn((source, options) => {
      try {
        return parse(source, { ...options, maxTokens: MAX_TOKENS })
      } catch (error) {
        if (!(error instanceof RangeError)) throw error
        // The parser calls itself for each level.
        throw new GraphQLError('Syntax Error: Document is nested too deeply.')
      }
    })
  },
}

/** Caches that a caller cannot fill beyond a bound, however long its documents are. */
export function documentCaches() {
  return { documentCache: cache<DocumentNode>(), errorCache: cache<Error>() }
}

function cache<Value extends object>() {
  return new LRUCache<string, Value>({
    maxSize: CACHED_CHARACTERS,
    sizeCalculation: (_, text) => text.length + 1,
  })
}
