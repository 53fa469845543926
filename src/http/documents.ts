import type { DocumentNode, GraphQLSchema } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { parseBounded, validateBounded } from '../graphql/documentLimits.ts'
import { type CompiledOperation, compilableFields, compileOperation } from './compiledOperations.ts'
import { withArguments } from './errors.ts'

/** A document that passed validation. */
interface CachedDocument {
  document: DocumentNode
  /** Its operation, compiled when it is used for the second time, if it can be. */
  operation: CompiledOperation | 'uncompiled' | 'uncompilable'
}

/** Maximum memory of the cache, in bytes: a few thousand typical documents. */
const MAX_BYTES = 32_000_000

const BYTES_A_CHARACTER = 2
/** Measured on Node 20: at most 483. */
const BYTES_A_TOKEN = 500
/** Added by compiling. Measured on Node 20: at most 1 060. */
const BYTES_A_FIELD = 1_500

/** Caches documents within a memory limit. Rejected ones aren't cached: their errors may be many times as long. */
export function createDocumentCache(schema: GraphQLSchema) {
  const documents = new LRUCache<string, CachedDocument>({ maxSize: MAX_BYTES })
  return {
    get: (text: string) => documents.get(text),

    add(text: string, document: DocumentNode): void {
      const fields = compilableFields(schema, document)
      const size = bytesOfDocument(document, fields)
      documents.set(text, { document, operation: fields > 0 ? 'uncompiled' : 'uncompilable' }, { size })
    },

    /** The compiled operation of a request, if its document is cached and can be compiled. */
    compiled(text = '', operationName?: string | null): CompiledOperation | undefined {
      const cached = documents.get(text)
      if (cached?.operation === 'uncompiled')
        cached.operation = compileOperation(schema, cached.document) ?? 'uncompilable'
      const operation = cached?.operation
      if (typeof operation !== 'object') return undefined
      return operationName == null || operationName === operation.name ? operation : undefined
    },

    get size() {
      return documents.size
    },
  }
}

export type DocumentCache = ReturnType<typeof createDocumentCache>

/** Takes documents from the cache; parses and validates all others within limits, and caches the valid ones. */
export function cachedDocuments(cache: DocumentCache): Plugin {
  return {
    onParse({ params: { source }, setParseFn, setParsedDocument }) {
      const cached = cache.get(String(source))
      if (cached) setParsedDocument(cached.document)
      else setParseFn(parseBounded)
    },

    onValidate({ params: { documentAST }, setValidationFn, setResult }) {
      const text = documentAST.loc?.source.body ?? ''
      if (cache.get(text)?.document === documentAST) return void setResult([])
      setValidationFn((schema, document, ...rest) =>
        withArguments(document, validateBounded(schema, document, ...rest)),
      )
      return ({ valid }) => {
        if (valid) cache.add(text, documentAST)
      }
    },
  }
}

/** Memory of a document with its text, in bytes, and with this many fields of compiled code. */
export function bytesOfDocument({ loc }: DocumentNode, compiledFields: number): number {
  let tokens = 0
  for (let token = loc?.startToken; token; token = token.next ?? undefined) tokens += 1
  const characters = loc?.source.body.length ?? 0
  return characters * BYTES_A_CHARACTER + tokens * BYTES_A_TOKEN + compiledFields * BYTES_A_FIELD
}

/** Heap that a character of an executed document may need, in bytes. Measured on Node 20: 25, in 880 mutations. */
export const HEAP_BYTES_A_CHARACTER = 64
