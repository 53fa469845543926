import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { type AccessSettings, isUnprotected, type TokenSettings } from './http/credentials.ts'
import { isLoopback } from './http/origins.ts'
import { parseTargets } from './mysql/settings.ts'
import { originFault, SCOPES } from './rules/rights.ts'

const JWT_VARIABLES = ['NTH_JWT_ISSUER', 'NTH_JWT_AUDIENCE', 'NTH_JWT_JWKS_URL'] as const

const MIN_ADMIN_KEY = 32

const MAX_WORKERS = 64

/** Levels of the log: with each, those before it are logged too. */
const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const

const port = whole(0, 65_535, 'must be a port from 0 to 65535; 0 for any free port')

const url = z
  .string()
  .refine(
    (text) => /^https?:\/\//.test(text) && URL.canParse(text),
    'must be a URL such as https://nth.example',
  )

// Nothing else can be sent in a header.
const adminKey = z
  .string()
  .refine(
    (text) => text.length >= MIN_ADMIN_KEY && /^[\x21-\x7e]+$/.test(text),
    `must be at least ${MIN_ADMIN_KEY} printable ASCII characters without spaces`,
  )

const scope = z.enum(SCOPES, {
  error: ({ input }) => `has the unknown scope "${input}"; supported: ${SCOPES.join(', ')}`,
})

const origin = z.string().refine((text) => !originFault(text), {
  error: ({ input }) =>
    `must be * or a comma-separated list of origins such as https://shop.example; "${input}" is not an origin`,
})

const network = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
  error: ({ input }) => `has "${input}", which is not a network such as 10.0.0.0/8`,
})

const variables = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: port.default(4000),
  WORKERS: z.string().transform(tried(parseWorkers)).default(1),
  DATABASE_URL: z.string().transform(tried(parseTargets)).optional(),
  NTH_ACCEPT_LOST_COMMITS: z.enum(['0', '1'], 'must be 0 or 1').default('0'),
  NTH_CLUSTER_READS: z.enum(['causal', 'eventual'], 'must be causal or eventual').default('causal'),
  NTH_DATA_DIR: z.string().default('.nth'),
  NTH_DATABASE_MEMORY_MB: whole(32, 1_000_000).optional(),
  NTH_WRITE_TIMEOUT_MS: whole(100, 3_600_000).default(10_000),
  NTH_MAX_PENDING: whole(1, 1_000_000).default(10_000),
  NTH_IDEMPOTENCY_TTL_HOURS: whole(1, 8_760).default(24),
  NTH_LOG_LEVEL: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`).default('info'),
  NTH_METRICS_HOST: z.string().default('127.0.0.1'),
  NTH_METRICS_PORT: port.optional(),
  NTH_DRAIN_DELAY_MS: whole(0, 600_000).default(0),
  NTH_SHUTDOWN_TIMEOUT_MS: whole(1000, 3_600_000).default(20_000),
  NTH_ALLOWED_ORIGINS: listOf(origin).default([]),
  NTH_ADMIN_KEY: adminKey.optional(),
  NTH_ANONYMOUS: listOf(scope).optional(),
  NTH_ANONYMOUS_PER_MINUTE: whole(1, 1_000_000_000).optional(),
  NTH_BROWSER_PER_MINUTE: whole(1, 1_000_000_000).default(300),
  NTH_PUBLIC_URL: url.optional(),
  NTH_TRUST_PROXY: listOf(network).default([]),
  NTH_MAX_CONNECTIONS_PER_ADDRESS: whole(1, 1_000_000).default(1000),
  NTH_MAX_STREAMS_PER_CLIENT: whole(1, 1_000_000).default(100),
  NTH_JWT_ISSUER: z.string().optional(),
  NTH_JWT_AUDIENCE: z.string().optional(),
  NTH_JWT_JWKS_URL: url.optional(),
})

const consistent = variables.superRefine((set, context) => {
  const { HOST: host, NTH_ADMIN_KEY: adminKey, NTH_ANONYMOUS: anonymous } = set
  if (isUnprotected({ adminKey, anonymous }) && !isLoopback(host))
    context.addIssue({ code: 'custom', path: ['HOST'], message: exposed(host) })
  const missing = JWT_VARIABLES.filter((name) => set[name] === undefined)
  if (missing.length > 0 && missing.length < JWT_VARIABLES.length)
    context.addIssue({
      code: 'custom',
      path: [missing[0] ?? ''],
      message: `is missing: set all of ${JWT_VARIABLES.join(', ')}, or none`,
    })
})

const config = consistent.transform((set) => ({
  host: set.HOST,
  port: set.PORT,
  workers: set.WORKERS,
  /** The database to use; without one, Nth runs a private server on `dataDir`. */
  targets: set.DATABASE_URL,
  /** Whether a database that lacks commits is used nevertheless. */
  acceptsLostCommits: set.NTH_ACCEPT_LOST_COMMITS === '1',
  /** Whether reads, on a cluster, may be older than what was committed on another node. */
  eventualReads: set.NTH_CLUSTER_READS === 'eventual',
  dataDir: resolve(set.NTH_DATA_DIR),
  /** Memory for the data of the private server, in MB; undefined: by that of the machine. */
  databaseMemoryMb: set.NTH_DATABASE_MEMORY_MB,
  allowedOrigins: set.NTH_ALLOWED_ORIGINS,
  /** Maximum wait of a caller for its change, in milliseconds. */
  writeTimeoutMs: set.NTH_WRITE_TIMEOUT_MS,
  maxPending: set.NTH_MAX_PENDING,
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: set.NTH_IDEMPOTENCY_TTL_HOURS * 3_600_000,
  logLevel: set.NTH_LOG_LEVEL,
  metricsHost: set.NTH_METRICS_HOST,
  /** Port of a server for the metrics alone; undefined: there is none. */
  metricsPort: set.NTH_METRICS_PORT,
  /** How long a process that shuts down still accepts requests, in milliseconds. */
  drainDelayMs: set.NTH_DRAIN_DELAY_MS,
  /** Maximum time of a shutdown after that, in milliseconds. */
  shutdownTimeoutMs: set.NTH_SHUTDOWN_TIMEOUT_MS,
  maxConnectionsPerAddress: set.NTH_MAX_CONNECTIONS_PER_ADDRESS,
  /** Maximum streams of one caller from one address. */
  maxStreams: set.NTH_MAX_STREAMS_PER_CLIENT,
  /** Who may call. */
  access: {
    adminKey: set.NTH_ADMIN_KEY,
    anonymous: set.NTH_ANONYMOUS,
    anonymousPerMinute: set.NTH_ANONYMOUS_PER_MINUTE,
    browserPerMinute: set.NTH_BROWSER_PER_MINUTE,
    publicOrigin: set.NTH_PUBLIC_URL && new URL(set.NTH_PUBLIC_URL).origin,
    trustedProxies: set.NTH_TRUST_PROXY,
    tokens: tokensIn(set.NTH_JWT_ISSUER, set.NTH_JWT_AUDIENCE, set.NTH_JWT_JWKS_URL),
  } as AccessSettings,
}))

export type Config = ReturnType<typeof readConfig>

function exposed(host: string): string {
  return `is ${host}, where other machines can reach this server: set NTH_ADMIN_KEY to a secret of at least ${MIN_ADMIN_KEY} characters (openssl rand -hex 32), and create keys for callers with it; or set NTH_ANONYMOUS to what everyone may do, such as READ`
}

/**
 * Reads the configuration. An empty variable counts as unset. Throws an error with a line for each one that is invalid or
 * unknown: with a misspelt NTH_ADMIN_KEY, the server would be open to everyone on the machine.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env) {
  const entries = Object.entries(environment).filter(([, value]) => value !== '')
  const ignored = entries.filter(isFromKubernetes).map(([name]) => name)
  const set = Object.fromEntries(entries.filter(([name]) => !ignored.includes(name)))
  const unknown = Object.keys(set).filter(
    (name) => /^nth_/i.test(name) && !Object.hasOwn(variables.shape, name),
  )
  const parsed = config.safeParse(set)
  // `path` is where installed programs are found, `ignored` the variables that are none of Nth's.
  if (parsed.success && unknown.length === 0) return { ...parsed.data, path: environment.PATH ?? '', ignored }
  const issues = parsed.error?.issues ?? []
  // Of a list, only the first item that is wrong.
  const first = issues.filter(
    (issue, index) => issues.findIndex(({ path }) => path[0] === issue.path[0]) === index,
  )
  const lines = first.map(({ path, message }) => `${String(path[0])} ${message}.`)
  throw new Error([...unknown.map(describeUnknown), ...lines].join('\n'))
}

/**
 * Whether Kubernetes has set a variable, for a Service called `nth` or `nth-…`: NTH_SERVICE_HOST, NTH_SERVICE_PORT_HTTP,
 * NTH_PORT_80_TCP_ADDR; and NTH_METRICS_PORT, which is Nth's own too: then its value is a URL such as tcp://10.0.0.1:80.
 */
function isFromKubernetes([name, value = '']: [string, string | undefined]): boolean {
  const isLink =
    /^NTH_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/.test(name)
  return isLink || (/^NTH_(\w+_)?PORT$/.test(name) && /^(tcp|udp|sctp):\/\//.test(value))
}

/** Says which variables Kubernetes has set; undefined: none. */
export function ignoredVariables({ ignored }: Pick<Config, 'ignored'>): string | undefined {
  if (ignored.length === 0) return undefined
  return `Nth ignores ${ignored.join(', ')}, which Kubernetes sets for Services called nth or nth-…. To avoid this, set enableServiceLinks: false in the pod.`
}

function describeUnknown(name: string): string {
  const nearest = Object.keys(variables.shape)
    .map((known) => ({ known, distance: distanceBetween(name.toUpperCase(), known) }))
    .reduce((least, next) => (next.distance < least.distance ? next : least))
  return `${name} is not a variable of Nth. Did you mean ${nearest.known}? nth start --help lists all variables.`
}

/** How many characters must be inserted, deleted or replaced to make one text of another (Levenshtein). */
function distanceBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, character] of [...from].entries()) {
    const next = [index + 1]
    for (const [column, other] of [...to].entries()) {
      const [left = 0, above = 0, diagonal = 0] = [next[column], row[column + 1], row[column]]
      next.push(Math.min(left + 1, above + 1, diagonal + (character === other ? 0 : 1)))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

/** Reads the configuration of a command that uses the database, but doesn't listen. */
export function readDatabaseConfig(environment: NodeJS.ProcessEnv = process.env) {
  return readConfig({ ...environment, HOST: '' })
}

/** A whole number within inclusive bounds. */
function whole(
  lowest: number,
  highest: number,
  rule = `must be a whole number from ${lowest} to ${highest}`,
) {
  return z
    .string()
    .regex(/^\d{1,15}$/, rule)
    .transform(Number)
    .refine((number) => number >= lowest && number <= highest, rule)
}

/** All three, or none. */
function tokensIn(issuer?: string, audience?: string, jwksUrl?: string): TokenSettings | undefined {
  return issuer && audience && jwksUrl ? { issuer, audience, jwksUrl } : undefined
}

function listOf<Item extends z.ZodType<unknown, string>>(item: Item) {
  const items = (text: string) => text.split(',').map((part) => part.trim())
  return z
    .string()
    .transform((text) => items(text).filter(Boolean))
    .pipe(z.array(item))
}

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
