import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { closestMatch } from 'leven'
import { z } from 'zod'
import { type AccessSettings, isUnprotected } from './http/authentication.ts'
import { isLoopback } from './http/origins.ts'
import { parseTargets } from './mysql/settings.ts'
import { originFault, SCOPES } from './rules/rights.ts'

const MIN_ADMIN_KEY = 32

const MAX_WORKERS = 64

/** Levels of the log: with each, those before it are logged too. */
const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const

const logLevel = z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`)

const directory = z.string().transform((path) => resolve(path))

const hours = whole(1, 8_760).transform((count) => count * 3_600_000)

const port = whole(0, 65_535, 'must be a port from 0 to 65535; 0 for any free port')

const workers = z
  .string()
  .transform((text) => (text === 'auto' ? String(Math.min(availableParallelism(), MAX_WORKERS)) : text))
  .pipe(
    whole(1, MAX_WORKERS, `must be a number of processes from 1 to ${MAX_WORKERS}, or auto for one per core`),
  )

const database = z.string().transform((text, context) => {
  try {
    return parseTargets(text)
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message })
    return z.NEVER
  }
})

const isUrl = (text: string) => /^https?:\/\//.test(text) && URL.canParse(text)
const url = z.string().refine(isUrl, 'must be a URL such as https://nth.example')

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

/** Under which variable each setting is found. */
const variables = z.registry<{ name: string }>()

function variable<Schema extends z.ZodType>(name: string, schema: Schema): Schema {
  variables.add(schema, { name })
  return schema
}

/** The settings, and how each is read from the text of its variable. */
const settings = z.object({
  host: variable('HOST', z.string().default('127.0.0.1')),
  port: variable('PORT', port.default(4000)),
  workers: variable('WORKERS', workers.default(1)),
  /** The database to use; without one, Nth runs a private server on `dataDir`. */
  targets: variable('DATABASE_URL', database.optional()),
  /** Whether reads, on a cluster, may be older than what was committed on another node. */
  eventualReads: variable('NTH_CLUSTER_READS', isSecond('causal', 'eventual')),
  dataDir: variable('NTH_DATA_DIR', directory.prefault('.nth')),
  /** Memory for the data of the private server, in MB; undefined: by the machine's memory. */
  databaseMemoryMb: variable('NTH_DATABASE_MEMORY_MB', whole(32, 1_000_000).optional()),
  /** Maximum wait of a caller for its change, in milliseconds. */
  writeTimeoutMs: variable('NTH_WRITE_TIMEOUT_MS', whole(100, 3_600_000).default(10_000)),
  maxPending: variable('NTH_MAX_PENDING', whole(1, 1_000_000).default(10_000)),
  /** How long idempotency keys are valid, in milliseconds. */
  keyTtlMs: variable('NTH_IDEMPOTENCY_TTL_HOURS', hours.prefault('24')),
  logLevel: variable('NTH_LOG_LEVEL', logLevel.default('info')),
  metricsHost: variable('NTH_METRICS_HOST', z.string().default('127.0.0.1')),
  /** Port of a server for the metrics alone; undefined: there is none. */
  metricsPort: variable('NTH_METRICS_PORT', port.optional()),
  /** How long a process that shuts down still accepts requests, in milliseconds. */
  drainDelayMs: variable('NTH_DRAIN_DELAY_MS', whole(0, 600_000).default(0)),
  /** Maximum time of a shutdown after that, in milliseconds. */
  shutdownTimeoutMs: variable('NTH_SHUTDOWN_TIMEOUT_MS', whole(1000, 3_600_000).default(20_000)),
  maxConnectionsPerAddress: variable('NTH_MAX_CONNECTIONS_PER_ADDRESS', whole(1, 1_000_000).default(1000)),
  /** Maximum streams and WebSockets of one caller from one address. */
  maxStreams: variable('NTH_MAX_STREAMS_PER_CLIENT', whole(1, 1_000_000).default(100)),
  allowedOrigins: variable('NTH_ALLOWED_ORIGINS', listOf(origin).default([])),
  adminKey: variable('NTH_ADMIN_KEY', adminKey.optional()),
  anonymous: variable('NTH_ANONYMOUS', listOf(scope).optional()),
  anonymousPerMinute: variable('NTH_ANONYMOUS_PER_MINUTE', whole(1, 1_000_000_000).optional()),
  browserPerMinute: variable('NTH_BROWSER_PER_MINUTE', whole(1, 1_000_000_000).default(300)),
  /** Whether all but keys with ADMIN may run trusted documents only. */
  trustedOnly: variable('NTH_DOCUMENTS', isSecond('any', 'trusted')),
  publicOrigin: variable('NTH_PUBLIC_URL', url.transform((text) => new URL(text).origin).optional()),
  trustedProxies: variable('NTH_TRUST_PROXY', listOf(network).default([])),
  jwtIssuer: variable('NTH_JWT_ISSUER', z.string().optional()),
  jwtAudience: variable('NTH_JWT_AUDIENCE', z.string().optional()),
  jwtJwksUrl: variable('NTH_JWT_JWKS_URL', url.optional()),
})

const JWT = ['jwtIssuer', 'jwtAudience', 'jwtJwksUrl'] as const

/** The name of each setting's variable. */
export const VARIABLES: ReadonlyMap<string, string> = new Map(
  Object.entries(settings.shape).map(([setting, schema]) => [setting, variables.get(schema)?.name ?? '']),
)

/** A variable of earlier versions, by default 0. */
const RETIRED = 'NTH_ACCEPT_LOST_COMMITS'

const config = settings.transform((set, context) => {
  const { adminKey, anonymous, anonymousPerMinute, browserPerMinute, publicOrigin, ...others } = set
  const { trustedProxies, jwtIssuer: issuer, jwtAudience: audience, jwtJwksUrl: jwksUrl, ...rest } = others
  const tokens = issuer && audience && jwksUrl ? { issuer, audience, jwksUrl } : undefined
  const limits = { anonymousPerMinute, browserPerMinute }
  const access: AccessSettings = { adminKey, anonymous, ...limits, publicOrigin, trustedProxies, tokens }
  if (isUnprotected(access) && !isLoopback(set.host))
    context.addIssue({ code: 'custom', path: ['host'], message: exposed(set.host) })
  const missing = JWT.filter((setting) => set[setting] === undefined)
  if (!tokens && missing.length < JWT.length)
    context.addIssue({
      code: 'custom',
      path: missing.slice(0, 1),
      message: `is missing: set all of ${JWT.map((setting) => VARIABLES.get(setting)).join(', ')}, or none`,
    })
  return { ...rest, access }
})

export type Config = ReturnType<typeof readConfig>

function exposed(host: string): string {
  return `is ${host}, where other machines can reach this server: set NTH_ADMIN_KEY to a secret of at least ${MIN_ADMIN_KEY} characters (openssl rand -hex 32), and create keys for callers with it; or set NTH_ANONYMOUS to what everyone may do, such as READ`
}

/**
 * Reads the configuration. An empty variable counts as unset. Throws an error with a line for each one that is invalid or
 * unknown: with a misspelt NTH_ADMIN_KEY, the server would be open to everyone on the machine.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env) {
  const entries = Object.entries(environment).filter(
    ([name, value]) => value !== '' && !(name === RETIRED && value === '0'),
  )
  const isIgnored = (entry: (typeof entries)[0]) => entry[0] === RETIRED || isFromKubernetes(entry)
  const ignored = entries.filter(isIgnored).map(([name]) => name)
  const set = Object.fromEntries(entries.filter(([name]) => !ignored.includes(name)))
  const isUnknown = (name: string) => /^nth_/i.test(name) && ![...VARIABLES.values()].includes(name)
  const unknown = Object.keys(set).filter(isUnknown)
  const parsed = config.safeParse(
    Object.fromEntries([...VARIABLES].map(([setting, name]) => [setting, set[name]])),
  )
  // `path` is where installed programs are found, `ignored` the variables that have no effect.
  if (parsed.success && unknown.length === 0) return { ...parsed.data, path: environment.PATH ?? '', ignored }
  const issues = parsed.error?.issues ?? []
  // Of a list, only the first item that is wrong.
  const first = issues.filter(
    (issue, index) => issues.findIndex(({ path }) => path[0] === issue.path[0]) === index,
  )
  const lines = first.map(({ path, message }) => `${VARIABLES.get(String(path[0]))} ${message}.`)
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

/** Says which variables have no effect, and why: a notice for each reason. */
export function ignoredVariables({ ignored }: Pick<Config, 'ignored'>): string[] {
  const notices: string[] = []
  const links = ignored.filter((name) => name !== RETIRED)
  if (links.length > 0)
    notices.push(
      `Nth ignores ${links.join(', ')}, which Kubernetes sets for Services called nth or nth-…. To avoid this, set enableServiceLinks: false in the pod.`,
    )
  if (ignored.includes(RETIRED))
    notices.push(
      `${RETIRED} no longer has an effect: after a loss of commits, Nth stops until an operator runs nth check --accept-lost-commits.`,
    )
  return notices
}

/** Maximum letters by which a name may differ from the name that was meant: `NTH_` has four. */
const MAX_TYPOS = 4

function describeUnknown(name: string): string {
  const nearest = closestMatch(name.toUpperCase(), [...VARIABLES.values()], { maxDistance: MAX_TYPOS })
  const guess = nearest === undefined ? '' : ` Did you mean ${nearest}?`
  return `${name} is not a variable of Nth.${guess} nth start --help lists all variables.`
}

/** Reads the configuration of a command that uses the database, but doesn't listen. */
export function readDatabaseConfig() {
  return readConfig({ ...process.env, HOST: '' })
}

function whole(min: number, max: number, rule = `must be a whole number from ${min} to ${max}`) {
  return z
    .string()
    .regex(/^\d{1,15}$/, rule)
    .transform(Number)
    .refine((number) => number >= min && number <= max, rule)
}

/** A variable with one of two words, of which the first is the default. Its value: whether it is the second. */
function isSecond(first: string, second: string) {
  const rule = `must be ${first} or ${second}`
  return z
    .enum([first, second], rule)
    .default(first)
    .transform((text) => text === second)
}

function listOf<Item extends z.ZodType<unknown, string>>(item: Item) {
  const items = (text: string) => text.split(',').map((part) => part.trim())
  return z
    .string()
    .transform((text) => items(text).filter(Boolean))
    .pipe(z.array(item))
}
