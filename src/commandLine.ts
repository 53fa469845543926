import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const USAGE = `Usage: node dist/main.js [--help | --version]

Starts Nth: counters and sequences over GraphQL and MySQL. It is configured by environment variables:

  HOST                       address to listen at (127.0.0.1)
  PORT                       port to listen at; 0 takes any that is free (4000)
  WORKERS                    how many processes serve, or auto for one a core (1)
  DATABASE_URL               mysql://user:password@host:port/database (a private server)
  NTH_DATA_DIR               directory of the private server (.nth)
  NTH_ALLOWED_ORIGINS        origins whose pages may call, with commas between them, or * (none)
  NTH_WRITE_TIMEOUT_MS       how long a caller waits at most, in milliseconds (10000)
  NTH_MAX_PENDING            how many changes may wait in one process (10000)
  NTH_IDEMPOTENCY_TTL_HOURS  for how many hours an idempotency key holds (24)
`

/**
 * What the command line asks to be printed, in place of a start; undefined: it asks for a start.
 *
 * @throws {Error} for an argument that is unknown
 */
export function answerTo(args: readonly string[]): string | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'v' } },
  })
  if (values.help) return USAGE
  return values.version ? `${version()}\n` : undefined
}

function version(): string {
  const text = readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')
  // The project's own file.
  return (JSON.parse(text) as { version: string }).version
}
