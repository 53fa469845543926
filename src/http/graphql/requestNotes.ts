import { type ExecutionArgs, type ExecutionResult, getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { ServerContext } from './idempotencyHeader.ts'
import { codeOf } from './requestNote.ts'

/** Notes the kind of operation, and for what Yoga answers itself the code. */
export const requestNotes: Plugin<object, ServerContext> = {
  onExecute: ({ args }) => noteOperation(args),
  onSubscribe: ({ args }) => noteOperation(args),

  onResultProcess({ result, serverContext }) {
    const { note } = serverContext as ServerContext
    // There are no incremental results.
    if (note && 'errors' in result) note.code = codeOf(result as ExecutionResult)
  },
}

function noteOperation({ document, operationName, contextValue }: ExecutionArgs): void {
  // Yoga creates it from the server's context.
  const { note } = contextValue as ServerContext
  const operation = getOperationAST(document, operationName)
  if (!note || !operation) return
  note.operation = operation.operation
  note.operationName = operation.name?.value
}
