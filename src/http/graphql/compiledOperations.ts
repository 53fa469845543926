/*
 * A second way beside Yoga's parsing, validation and execution, for cached documents. Processor time of a server in
 * memory, by `process.cpuUsage`, at 64 connections: an `increment` took 47 µs instead of 91, a read of 100 counters
 * 0.70 ms instead of 1.05 (medians of five alternating runs on two cores, Node 20). To repeat it, compare
 * `npm run bench -- --only ceiling,hot@64,reads@64` with and without this plugin.
 */

import { type ExecutionArgs, type ExecutionResult, execute, type GraphQLSchema } from 'graphql'
import type { GraphQLParams, Plugin } from 'graphql-yoga'
import { hasRoom, untilRoom } from '../../core/eventLoop/ticks.ts'
import { type CompiledOperation, compileOperation } from './compileOperation.ts'
import type { DocumentCache } from './documentCache.ts'
import { idempotencyKeyIn, type ServerContext } from './idempotencyHeader.ts'

interface CompiledOperationsOptions {
  schema: GraphQLSchema
  cache: DocumentCache
  /** Creates the context of resolvers. */
  createContext: () => object
}

/**
 * Executes operations of cached documents as compiled code.
 *
 * Only if there are no errors: a result with errors also goes through Yoga, as the result of its executor. So plugins
 * see every error, and every document before it is cached; of the rest they see the parameters and the result
 * (`onParams`, `onExecutionResult`).
 */
export function compiledOperations(options: CompiledOperationsOptions): Plugin<object, ServerContext> {
  const failed = new WeakMap<object, ExecutionResult>()

  return {
    onParams({ params, request, context, paramsHandler, setParamsHandler }) {
      const operation = compiledOperation(options, params)
      if (!operation || (operation.isMutation && request.method !== 'POST')) return
      // Whether the header is allowed depends on the document.
      if (operation.isMutation && idempotencyKeyIn(context, request) !== undefined) return
      setParamsHandler((input) => {
        const finish = (result: ExecutionResult) => {
          if (!result.errors) return result
          if ('data' in result) failed.set(input.context, result)
          return paramsHandler(input)
        }
        const result = operation.execute(options.createContext(), params.variables)
        return 'then' in result ? result.then(finish) : finish(result)
      })
    },

    onExecute({ args, setExecuteFn }) {
      const result = failed.get(args.contextValue)
      // Yoga's own executor treats a result with a field named "then" as a promise.
      setExecuteFn(result ? () => result : executeInTick)
    },
  }
}

/** The requested operation, compiled when its document is used for the second time. */
function compiledOperation(
  { schema, cache }: CompiledOperationsOptions,
  { query, operationName }: GraphQLParams,
): CompiledOperation | undefined {
  const cached = query === undefined ? undefined : cache.get(query)
  if (!cached) return undefined
  if (cached.operation === 'uncompiled') {
    cached.operation = compileOperation(schema, cached.document) ?? 'uncompilable'
  }
  const { operation } = cached
  if (operation === 'uncompilable') return undefined
  const isRequested = operationName == null || operationName === operation.name
  return isRequested ? operation : undefined
}

/** From this length, in characters, a document takes some milliseconds to parse and validate. */
const LONG = 10_000

/** Executes a long document in a later tick; short ones that arrived together stay together. */
function executeInTick(args: ExecutionArgs): ReturnType<typeof execute> {
  const isLong = (args.document.loc?.end ?? 0) > LONG
  return isLong && !hasRoom(0) ? untilRoom(0).then(() => execute(args)) : execute(args)
}
