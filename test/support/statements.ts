import { tracingChannel } from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'

/** Collects the statements that mysql2 sends from this process, by mysql2's own tracing. */
export function collectStatements(): string[] {
  const statements: string[] = []
  const start = (message: unknown) => {
    const { query } = message as { query: string }
    // What a new connection sends before its first statement, and what keeps an idle one.
    if (!/^\s*set session|^do 0$/.test(query)) statements.push(query)
  }
  const channel = tracingChannel('mysql2:query')
  channel.start.subscribe(start)
  onTestFinished(() => {
    channel.start.unsubscribe(start)
  })
  return statements
}
