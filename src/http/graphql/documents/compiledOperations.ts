/*
 * A second way beside Yoga's parsing, validation and execution, for cached documents. Processor time of a server in
 * memory, by `process.cpuUsage`, at 64 connections: an `increment` took 47 µs instead of 91, a read of 100 counters
 * 0.70 ms instead of 1.05 (medians of five alternating runs on two cores, Node 20). To repeat it, compare
 * `npm run bench -- --only ceiling,hot@64,reads@64` with and without `execute`.
 */

import {
  BREAK,
  type DocumentNode,
  type ExecutionResult,
  execute,
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
import { FieldError, reportedErrors } from '../../../graphql/fieldError.ts'
import { fieldCount, fragmentsOf } from '../../../graphql/selections.ts'
import { idempotencyKeyIn, type ServerContext } from '../idempotencyHeader.ts'
import { createVariableCheck } from './variables.ts'

/** A document that passed validation. */
export interface CachedDocument {
  document: DocumentNode
  /** Its operation, compiled when it is used for the second time, if it can be. */
  operation: CompiledOperation | 'uncompiled' | 'uncompilable'
}

export type CompiledOperation = NonNullable<ReturnType<typeof compileOperation>>

/** Maximum fields of a compiled operation, with fragments counted at each use: each takes 15 to 40 µs to compile. */
const MAX_FIELDS = 200

const REJECTED: ExecutionResult = { errors: [new GraphQLError('Invalid variable.')] }

export interface Documents {
  get(text: string): CachedDocument | undefined
}

/** The compiled operation of a cached document, if it can be compiled. */
export function requestedOperation(
  schema: GraphQLSchema,
  cache: Documents,
  { query, operationName }: GraphQLParams,
): CompiledOperation | undefined {
  const cached = query === undefined ? undefined : cache.get(query)
  if (cached?.operation === 'uncompiled') {
    cached.operation = compileOperation(schema, cached.document) ?? 'uncompilable'
  }
  const operation = cached?.operation
  if (typeof operation !== 'object') return undefined
  return operationName == null || operationName === operation.name ? operation : undefined
}

/**
 * Creates the function that executes operations of cached documents as compiled code, if there are no errors: a result
 * with errors also goes through Yoga, as the result of its executor. So plugins see every error, and every document
 * before it is cached. It returns undefined for a request that it can't execute.
 */
export function createExecuteCompiled(
  schema: GraphQLSchema,
  cache: Documents,
  createContext: (server: ServerContext) => object,
) {
  return (params: GraphQLParams, server: ServerContext) => {
    const operation = requestedOperation(schema, cache, params)
    // Subscriptions are executed for each event.
    if (!operation || operation.isSubscription) return undefined
    const { req, note } = server
    if (operation.isMutation && req.method !== 'POST') return undefined
    // Whether the header is allowed depends on the document.
    if (operation.isMutation && idempotencyKeyIn(server) !== undefined) return undefined
    note.operation = operation.isMutation ? 'mutation' : 'query'
    note.operationName = operation.name
    return operation.execute(createContext(server), params.variables)
  }
}

/** Executes operations in Yoga, unless their result was compiled. */
export const executor: Plugin<ServerContext> = {
  onExecute({ args, setExecuteFn }) {
    const { compiled } = args.contextValue
    // Yoga's own executor treats a result with a field named "then" as a promise.
    setExecuteFn(compiled && 'data' in compiled ? () => unwrapped(compiled) : execute)
  },
}

/**
 * Number of fields of an operation that may be compiled; 0 for those that are too large to be worth it, and those that
 * compiled code executes differently: with default values, directives, variables within values, response names that
 * JavaScript reserves, introspection, and nullable variables for non-null arguments (given null, it skips the mutations
 * after it).
 */
export function compilableFields(schema: GraphQLSchema, document: DocumentNode): number {
  // None if there are several.
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
  const variableFault = createVariableCheck(schema, document, operation)
  return {
    name: operation.name?.value,
    isMutation: operation.operation === 'mutation',
    isSubscription: operation.operation === 'subscription',
    fields: fieldCount(operation.selectionSet, fragmentsOf(document)),

    /** Errors without `data`: the variables were rejected, and nothing was executed. */
    execute(
      context: object,
      variables: GraphQLParams['variables'],
      rootValue?: unknown,
    ): ExecutionResult | Promise<ExecutionResult> {
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

/** Compiled code wraps errors that are already located. */
function unwrapped({ data = null, errors = [] }: ExecutionResult): ExecutionResult {
  const unwrappedErrors = reportedErrors(errors).map((error) =>
    error.originalError instanceof FieldError ? error.originalError : error,
  )
  return { errors: unwrappedErrors, data }
}
