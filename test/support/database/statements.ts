import { subscribe } from './trips.ts'

/**
 * What a new connection sends before its first statement, what keeps an idle one, and what goes on in the background: lists
 * by value are kept up to date, API keys checked, and losses of commits.
 */
const BESIDE =
  /^\s*set session|^select connection_id|^show (variables|global status)|^do 0$|leaderboard|api_key|lost_commits/

/**
 * Collects the statements that mysql2 sends from this process, by mysql2's own tracing.
 *
 * @param about a table: only its statements, in the background as well
 */
export function collectStatements(about?: string): string[] {
  const statements: string[] = []
  subscribe({
    start({ query }) {
      if (about === undefined ? !BESIDE.test(query) : query.includes(about)) statements.push(query)
    },
  })
  return statements
}
