import { tracingChannel } from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'

/**
 * Collects the statements that mysql2 sends from this process, by mysql2's own tracing.
 *
 * @param about a table: only its statements, in the background as well
 */
export function collectStatements(about?: string): string[] {
  const statements: string[] = []
  const start = (message: unknown) => {
    const { query } = message as { query: string }
    if (about !== undefined) {
      if (query.includes(about)) statements.push(query)
      return
    }
    // What a new connection sends before its first statement, what keeps an idle one, and what goes on in the
    // background: lists by value are kept up to date, API keys checked, and losses of commits.
    if (
      !/^\s*set session|^select connection_id|^show (variables|global status)|^do 0$|leaderboard|api_key|lost_commits/.test(
        query,
      )
    )
      statements.push(query)
  }
  for (const command of ['query', 'execute']) {
    const channel = tracingChannel(`mysql2:${command}`)
    channel.start.subscribe(start)
    onTestFinished(() => {
      channel.start.unsubscribe(start)
    })
  }
  return statements
}
