import { tracingChannel } from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'

/** Collects the statements that mysql2 sends from this process, by mysql2's own tracing. */
export function collectStatements(): string[] {
  const statements: string[] = []
  const start = (message: unknown) => {
    const { query } = message as { query: string }
    // What a new connection sends before its first statement, what keeps an idle one, and what goes on in the
    // background: lists by value are kept up to date.
    if (!/^\s*set session|^do 0$|leaderboard/.test(query)) statements.push(query)
  }
  const channel = tracingChannel('mysql2:query')
  channel.start.subscribe(start)
  onTestFinished(() => {
    channel.start.unsubscribe(start)
  })
  return statements
}
