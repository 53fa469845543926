import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { parseTarget, type Target } from '../mysql/connections/target.ts'

export interface Config {
  host: string
  port: number
  workers: number
  /** The database to use; without one, Nth runs a private server on `dataDir`. */
  target?: Target
  dataDir: string
  allowedOrigins: string[]
  /** Maximum wait of a caller for its change, in milliseconds. */
  writeTimeoutMs: number
  maxPending: number
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: number
  /** PATH, where installed programs are found. */
  path: string
}

type Environment = Record<string, string | undefined>

const settings = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: z
    .string()
    .regex(/^\d{1,5}$/, portRule())
    .transform(Number)
    .refine((port) => port <= 65_535, portRule())
    .default(4000),
  WORKERS: z.string().transform(tried(parseWorkers)).default(1),
  DATABASE_URL: z.string().transform(tried(parseTarget)).optional(),
  NTH_DATA_DIR: z
    .string()
    .default('.nth')
    .transform((path) => resolve(path)),
  NTH_WRITE_TIMEOUT_MS: whole(100, 3_600_000).default(10_000),
  NTH_MAX_PENDING: whole(1, 1_000_000).default(10_000),
  NTH_IDEMPOTENCY_TTL_HOURS: whole(1, 8_760).default(24),
  NTH_ALLOWED_ORIGINS: z.string().default('').transform(tried(parseOrigins)),
})

/**
 * Reads the configuration. An empty variable counts as unset.
 *
 * @throws {Error} with a line for each invalid variable
 */
export function readConfig(environment: Environment = process.env): Config {
  const set = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))
  const parsed = settings.safeParse(set)
  if (!parsed.success) {
    const lines = parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}.`)
    throw new Error(lines.join('\n'))
  }
  const { HOST, PORT, WORKERS, DATABASE_URL, NTH_DATA_DIR, NTH_ALLOWED_ORIGINS } = parsed.data
  const { NTH_WRITE_TIMEOUT_MS, NTH_MAX_PENDING, NTH_IDEMPOTENCY_TTL_HOURS } = parsed.data
  return {
    host: HOST,
    port: PORT,
    workers: WORKERS,
    ...(DATABASE_URL && { target: DATABASE_URL }),
    dataDir: NTH_DATA_DIR,
    allowedOrigins: NTH_ALLOWED_ORIGINS,
    writeTimeoutMs: NTH_WRITE_TIMEOUT_MS,
    maxPending: NTH_MAX_PENDING,
    keyTtlMs: NTH_IDEMPOTENCY_TTL_HOURS * 3_600_000,
    path: environment.PATH ?? '',
  }
}

/** A whole number within inclusive bounds. */
function whole(lowest: number, highest: number) {
  const rule = `must be a whole number from ${lowest} to ${highest}`
  return z
    .string()
    .regex(/^\d{1,15}$/, rule)
    .transform(Number)
    .refine((number) => number >= lowest && number <= highest, rule)
}

function portRule(): string {
  return 'must be a port from 0 to 65535; 0 for any free port'
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
