import { type ExecutionResult, GraphQLError } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { ErrorCode } from '../../core/errors.ts'

/** Responds 429 to a request of which nothing was executed, because the caller has made too many changes. */
export const rateLimited: Plugin = {
  onExecutionResult({ result, setResult }) {
    // There are no subscriptions, no incremental results and no batches.
    const { data, errors } = result as ExecutionResult
    if (!errors || !data) return
    const refused = errors.filter(
      ({ path, extensions }) =>
        path?.length === 1 && extensions?.code === ('RATE_LIMITED' satisfies ErrorCode),
    )
    if (refused.length === 0 || refused.length < Object.keys(data).length) return
    const pauseMs = Math.min(...refused.map(({ extensions }) => Number(extensions.retryAfterMs)))
    const http = { status: 429, headers: { 'retry-after': String(Math.ceil(pauseMs / 1000)) } }
    const unexecuted = refused.map(
      ({ message, path, extensions }) =>
        new GraphQLError(message, { path: path ?? null, extensions: { ...extensions, http } }),
    )
    setResult({ errors: unexecuted })
  },
}
