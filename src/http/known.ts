import type { DocumentNode } from 'graphql'
import { LRUCache } from 'lru-cache'

/** Documents that validation found right, by their text. */
export type KnownDocuments = LRUCache<string, DocumentNode>

/** What all that are remembered may take, in bytes: some thousand as clients send them. */
const MAX_BYTES = 32_000_000

const BYTES_A_CHARACTER = 2
/** Measured on Node 20: at most 483. */
const BYTES_A_TOKEN = 500

/**
 * Remembers documents within a bound that no caller can make it cross, however long or full they are. Those
 * that are refused aren't remembered: the messages of their errors may be many times as long as they.
 */
export function openKnownDocuments(): KnownDocuments {
  return new LRUCache({
    maxSize: MAX_BYTES,
    sizeCalculation: (document, text) =>
      1 + text.length * BYTES_A_CHARACTER + tokensIn(document) * BYTES_A_TOKEN,
  })
}

function tokensIn({ loc }: DocumentNode): number {
  let count = 0
  for (let token = loc?.startToken; token; token = token.next ?? undefined) count += 1
  return count
}
