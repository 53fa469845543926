import { type ExecutionArgs, getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Context } from '../../graphql/context.ts'
import { fragmentsOf, rootFields } from '../../graphql/selections.ts'
import { requestError } from './requests.ts'

/** Leaves introspection to callers who may do anything at all; the text of the schema is public. */
export const introspectionRight: Plugin = {
  onExecute({ args }) {
    const { document, operationName, contextValue }: ExecutionArgs = args
    const operation = getOperationAST(document, operationName)
    // Created in `yoga.ts`.
    const { caller } = contextValue as Context
    if (!operation || caller.grants.length > 0) return
    const fields = rootFields(operation.selectionSet, fragmentsOf(document))
    if (!fields.some(({ name }) => name.value === '__schema' || name.value === '__type')) return
    const message = 'Introspection requires an API key; the text of the schema is at /schema.graphql.'
    throw requestError(401, 'UNAUTHENTICATED', message, {
      headers: { 'WWW-Authenticate': 'Bearer realm="Nth"' },
    })
  },
}
