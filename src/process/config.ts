import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { parseTarget } from '../mysql/connections/target.ts'

const variables = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: whole(0, 65_535, 'must be a port from 0 to 65535; 0 for any free port', /^\d{1,5}$/).default(4000),
  WORKERS: z.string().transform(tried(parseWorkers)).default(1),
  DATABASE_URL: z.string().transform(tried(parseTarget)).optional(),
  NTH_DATA_DIR: z.string().default('.nth'),
  NTH_DATABASE_MEMORY_MB: whole(32, 1_000_000).optional(),
  NTH_WRITE_TIMEOUT_MS: whole(100, 3_600_000).default(10_000),
  NTH_MAX_PENDING: whole(1, 1_000_000).default(10_000),
  NTH_IDEMPOTENCY_TTL_HOURS: whole(1, 8_760).default(24),
  NTH_ALLOWED_ORIGINS: z.string().default('').transform(tried(parseOrigins)),
})

const config = variables.transform((set) => ({
  host: set.HOST,
  port: set.PORT,
  workers: set.WORKERS,
  /** The database to use; without one, Nth runs a private server on `dataDir`. */
  target: set.DATABASE_URL,
  dataDir: resolve(set.NTH_DATA_DIR),
  /** Memory for the data of the private server, in MB; undefined: by that of the machine. */
  databaseMemoryMb: set.NTH_DATABASE_MEMORY_MB,
  allowedOrigins: set.NTH_ALLOWED_ORIGINS,
  /** Maximum wait of a caller for its change, in milliseconds. */
  writeTimeoutMs: set.NTH_WRITE_TIMEOUT_MS,
  maxPending: set.NTH_MAX_PENDING,
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: set.NTH_IDEMPOTENCY_TTL_HOURS * 3_600_000,
}))

export type Config = ReturnType<typeof readConfig>

/** Reads the configuration. An empty variable counts as unset. Throws an error with a line for each invalid one. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env) {
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = config.safeParse(set)
  // `path` is where installed programs are found.
  if (parsed.success) return { ...parsed.data, path: environment.PATH ?? '' }
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}.`)
  throw new Error(lines.join('\n'))
}

/** A whole number within inclusive bounds. */
function whole(
  lowest: number,
  highest: number,
  rule = `must be a whole number from ${lowest} to ${highest}`,
  form = /^\d{1,15}$/,
) {
  return z
    .string()
    .regex(form, rule)
    .transform(Number)
    .refine((number) => number >= lowest && number <= highest, rule)
}

const MAX_WORKERS = 64

function parseWorkers(text: string): number {
  if (text === 'auto') return Math.min(availableParallelism(), MAX_WORKERS)
  const count = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (count >= 1 && count <= MAX_WORKERS) return count
  throw new Error(`must be a number of processes from 1 to ${MAX_WORKERS}, or auto for one per core`)
}

/** Adapts a parser that throws to zod. */
function tried<T>(parse: (text: string) => T) {
  return (text: string, context: z.RefinementCtx): T => {
    try {
      return parse(text)
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message })
      return z.NEVER
    }
  }
}

function parseOrigins(text: string): string[] {
  const origins = text.split(',').map((origin) => origin.trim())
  return origins.filter(Boolean).map((origin) => {
    if (origin === '*') return origin
    // An origin as browsers send it: no path, no trailing slash, no default port.
    if (URL.canParse(origin) && new URL(origin).origin === origin) return origin
    throw new Error(
      `must be * or a comma-separated list of origins such as https://shop.example; "${origin}" is not an origin`,
    )
  })
}
