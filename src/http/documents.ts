/*
 * The cache of documents, and a second way beside Yoga's parsing, validation and execution, for cached documents. Processor time of a server in
 * memory, by `process.cpuUsage`, at 64 connections: an `increment` took 47 µs instead of 91, a read of 100 counters
 * 0.70 ms instead of 1.05 (medians of five alternating runs on two cores, Node 20). To repeat it, compare
 * `npm run bench -- --only ceiling,hot@64,reads@64` with and without `execute`.
 */
import { hash } from 'node:crypto'
import {
  BREAK,
  type DocumentNode,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  isNonNullType,
  Kind,
  type OperationDefinitionNode,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from 'graphql'
import { compileQuery, isCompiledQuery } from 'graphql-jit'
import type { GraphQLParams, Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'
import { parseBounded, validateBounded } from '../graphql/documentLimits.ts'
import { fieldCount, fieldsIn, fragmentsOf } from '../graphql/selections.ts'
import { type HeaderList, withArguments } from './errors.ts'
import { createVariableCheck } from './variables.ts'

/** A document that passed validation. */
interface CachedDocument {
  document: DocumentNode
  /** The document's operation, compiled when it is used for the second time, if it can be. */
  operation: CompiledOperation | 'uncompiled' | 'uncompilable'
}

/** A response with JSON, of which nothing depends on who sent the request. */
export interface Rendered {
  status: number
  headers: HeaderList
  json: string
  /** Code of its first error. */
  code: string | undefined
}

/** Maximum memory of the cache, in bytes: a few thousand typical documents. */
const MAX_BYTES = 32_000_000
/** Maximum memory of the responses to refused documents, in bytes: all together, and each. */
const MAX_REFUSAL_BYTES = 4_000_000
const MAX_BYTES_A_REFUSAL = 16_000
/** Memory of a refusal without its JSON: measured. */
const BYTES_A_REFUSAL = 700

const BYTES_A_CHARACTER = 2
/** Measured on Node 20: at most 483. */
const BYTES_A_TOKEN = 500
/** Added by compiling. Measured on Node 20: at most 1 060. */
const BYTES_A_FIELD = 1_500

/**
 * Caches documents within a memory limit, and responses to refused ones within one of their own, so that nobody who sends
 * refused documents evicts others. The latter are found by a hash: a response is mostly shorter than its document.
 */
export function createDocumentCache(schema: GraphQLSchema) {
  const documents = new LRUCache<string, CachedDocument>({ maxSize: MAX_BYTES })
  const refusals = new LRUCache<string, Rendered>({
    maxSize: MAX_REFUSAL_BYTES,
    maxEntrySize: MAX_BYTES_A_REFUSAL,
    sizeCalculation: ({ json }) => BYTES_A_REFUSAL + json.length * BYTES_A_CHARACTER,
  })
  return {
    get: (text: string) => documents.get(text),

    /** The response to a request whose document was refused before. */
    refusal(params: GraphQLParams, type: string): Rendered | undefined {
      return documents.has(params.query ?? '') ? undefined : refusals.get(refusalKey(params, type))
    },

    refuse(params: GraphQLParams, type: string, response: Rendered): void {
      refusals.set(refusalKey(params, type), response)
    },

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
  }
}

/** What decides how a document is refused. Without the named operation, Yoga doesn't even validate it. */
function refusalKey({ query, operationName }: GraphQLParams, type: string): string {
  return hash('sha256', JSON.stringify([type, operationName ?? null, query]))
}

export type DocumentCache = ReturnType<typeof createDocumentCache>

/** Takes documents from the cache; parses and validates all others within limits, and caches the valid ones. */
export function cachedDocuments(cache: DocumentCache): Plugin<{ note: { isDocumentRefused: boolean } }> {
  return {
    onParse({ params: { source }, context: { note }, setParseFn, setParsedDocument }) {
      const cached = cache.get(String(source))
      if (cached) return void setParsedDocument(cached.document)
      setParseFn(parseBounded)
      return ({ result }) => {
        note.isDocumentRefused = result instanceof GraphQLError
      }
    },

    onValidate({ params: { documentAST }, context: { note }, setValidationFn, setResult }) {
      const text = documentAST.loc?.source.body ?? ''
      if (cache.get(text)?.document === documentAST) return void setResult([])
      setValidationFn((schema, document, ...rest) =>
        withArguments(document, validateBounded(schema, document, ...rest)),
      )
      return ({ valid }) => {
        if (valid) cache.add(text, documentAST)
        else note.isDocumentRefused = true
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

export type CompiledOperation = NonNullable<ReturnType<typeof compileOperation>>

/** Maximum fields of a compiled operation, with fragments counted at each use: each takes 15 to 40 µs to compile. */
const MAX_FIELDS = 200

const REJECTED: ExecutionResult = { errors: [new GraphQLError('Invalid variable.')] }

/**
 * Number of fields of an operation that may be compiled; 0 for those that are too large to be worth it, and those that
 * compiled code executes differently: with default values, directives, variables within values, response names that
 * JavaScript reserves, introspection, and nullable variables for non-null arguments (given null, it skips the mutations
 * after it).
 */
export function compilableFields(schema: GraphQLSchema, document: DocumentNode): number {
  // There is none if the document has several.
  const operation = getOperationAST(document)
  if (!operation) return 0
  const fields = fieldCount(operation.selectionSet, fragmentsOf(document))
  return fields <= MAX_FIELDS && !isUncompilable(schema, document, operation) ? fields : 0
}

/** Compiles what `compilableFields` accepts. Of several errors that each leave no data, its operation reports one. */
export function compileOperation(schema: GraphQLSchema, document: DocumentNode) {
  const operation = getOperationAST(document)
  const compiled = compileQuery(schema, document)
  if (!operation || !isCompiledQuery(compiled)) return undefined
  const variableFault = createVariableCheck(schema, operation)
  return {
    name: operation.name?.value,
    type: operation.operation,
    fields: fieldCount(operation.selectionSet, fragmentsOf(document)),
    rootFields: fieldsIn(operation.selectionSet, fragmentsOf(document)).length,

    /** Errors without `data`: the variables were rejected, and nothing was executed. */
    execute(context: object, variables: GraphQLParams['variables'], rootValue?: unknown) {
      // Compiled code accepts a list as an object, and creates an error for each wrong item.
      return variableFault(variables) ? REJECTED : compiled.query(rootValue, context, variables)
    },
  }
}

function isUncompilable(
  schema: GraphQLSchema,
  document: DocumentNode,
  { variableDefinitions = [] }: OperationDefinitionNode,
): boolean {
  const requiredDefinitions = variableDefinitions.filter(({ type }) => type.kind === Kind.NON_NULL_TYPE)
  const required = new Set(requiredDefinitions.map(({ variable }) => variable.name.value))
  const types = new TypeInfo(schema)
  let isFound = false
  const reject = () => {
    isFound = true
    return BREAK
  }
  visit(
    document,
    visitWithTypeInfo(types, {
      Directive: reject,
      Name: ({ value }) => (value.startsWith('__') && value !== '__typename' ? reject() : undefined),
      // Skips the variable that is defined.
      VariableDefinition: ({ defaultValue }) => (defaultValue ? reject() : false),
      Variable({ name }, _key, parent) {
        const isWholeArgument = parent && 'kind' in parent && parent.kind === Kind.ARGUMENT
        const mayFail = isNonNullType(types.getInputType()) && !required.has(name.value)
        return isWholeArgument && !mayFail ? undefined : reject()
      },
    }),
  )
  return isFound
}
