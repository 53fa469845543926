import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { type ErrorDetails, NthError } from './errors.ts'
import { type Fault, faultAt, inputError, listOf, nameFault, rangeFault, textFault } from './names.ts'
import { MAX_BLOCK } from './sequenceDefinition.ts'
import { subjectFault } from './subjects.ts'

/** What a caller may be allowed to do, with descriptions for callers: the schema's enum is generated from this table. */
export const scopes = {
  READ: 'Queries, and the `counter` or `group` in the result of a change.',
  ADD: 'Additions of 1 to `maxDelta` to each counter in one request.',
  NUMBER: 'Up to `maxCount` numbers of a sequence in one call, and reservations.',
  HOLD: '`hold`, `extendHold` and `releaseHold`, of 1 to `maxDelta`. It is part of WRITE, not of ADD.',
  WRITE:
    'Additions and holds of any size, `reset`, `resetAll`, `deleteCounter`, `restartSequence` and `deleteSequence`.',
  DEFINE: 'Definitions of counters, sequences and namespaces.',
  ADMIN: 'API keys, and everything else.',
}

export type Scope = keyof typeof scopes

// The keys of the table.
export const SCOPES = Object.keys(scopes) as readonly Scope[]

/** What a caller may do with which names. */
export interface Grant {
  scopes: readonly Scope[]
  /** Null: every namespace. */
  namespace: string | null
  /** Only these names of counters and sequences. Null: those that `prefix` selects. */
  names: readonly string[] | null
  /** Only names that start with this. */
  prefix: string
  /** What a request may add to a counter with ADD. */
  maxDelta: number
  /** How many numbers a call may issue with NUMBER. */
  maxCount: number
  /** Whether ADD and NUMBER count only for a subject, which counts once. With a token, that is its own `sub`. */
  onceOnly: boolean
}

/** Names that an operation concerns: one, or all that start with a prefix. */
export interface GrantTarget {
  namespace: string
  name?: string
  prefix?: string
}

/** All names in all namespaces: no grant is for a namespace with this name. */
export const ALL_NAMES: GrantTarget = { namespace: '', prefix: '' }

export const MAX_GRANTS = 100
export const MAX_NAMES = 100
export const MAX_ORIGINS = 100

/** A grant of scopes on every name. */
export function grantOf(...granted: readonly Scope[]): Grant {
  const limits = { maxDelta: 1, maxCount: 1, onceOnly: false }
  return { scopes: granted, namespace: null, names: null, prefix: '', ...limits }
}

export const EVERYTHING = grantOf(...SCOPES)

/** Whether a grant includes a scope: ADMIN includes all, WRITE includes ADD and HOLD. */
function includesScope({ scopes }: Grant, scope: Scope): boolean {
  const isInWrite = scope === 'ADD' || scope === 'HOLD'
  return scopes.includes(scope) || scopes.includes('ADMIN') || (isInWrite && scopes.includes('WRITE'))
}

/** Whether a grant covers all the names of a target; without a name and a prefix, any of them in the namespace. */
function covers({ namespace, names, prefix }: Grant, target: GrantTarget): boolean {
  if (namespace !== null && namespace !== target.namespace) return false
  if (target.name !== undefined) {
    return names === null ? target.name.startsWith(prefix) : names.includes(target.name)
  }
  return target.prefix === undefined || (names === null && target.prefix.startsWith(prefix))
}

const namesFault = listOf(nameFault, 1, MAX_NAMES, 'names')

/** Why a grant is invalid; undefined: it is valid. */
export function grantFault(grant: Grant): Fault | undefined {
  const { scopes, namespace, names, prefix, maxDelta, maxCount, onceOnly } = grant
  if (scopes.length === 0) return { message: 'must not be empty', path: ['scopes'] }
  const isLimited = namespace !== null || names !== null || prefix !== ''
  if (scopes.includes('ADMIN') && isLimited) {
    const message = 'cannot be combined with "namespace", "names" or "prefix" if it has ADMIN'
    return { message, path: ['scopes'] }
  }
  if (onceOnly && (scopes.includes('WRITE') || scopes.includes('ADMIN'))) {
    const message = 'cannot be combined with WRITE or ADMIN, which allow any change'
    return { message, path: ['onceOnly'] }
  }
  if (names && prefix !== '') return { message: 'cannot be combined with "prefix"', path: ['names'] }
  if (maxDelta < 1) return { message: `must be at least 1; it is ${maxDelta}`, limit: 1, path: ['maxDelta'] }
  return (
    faultAt(['namespace'], namespace === null ? undefined : nameFault(namespace)) ??
    faultAt(['names'], names === null ? undefined : namesFault(names)) ??
    faultAt(['prefix'], textFault(prefix)) ??
    faultAt(['maxCount'], rangeFault(maxCount, 1, MAX_BLOCK))
  )
}

/** An API key without its secret. */
export interface ApiKey extends ApiKeyOptions {
  id: number
  /** SHA-256 of the secret, in hexadecimal digits. The secret is random, so it needs no salt. */
  hash: string
  /** The first characters of the secret. */
  prefix: string
  createdAt: Date
  /** The creator's name, by `nameOf`; null: an earlier version created the key. */
  createdBy: string | null
  revokedAt: Date | null
  revokedBy: string | null
  /** About a minute behind. */
  lastUsedAt: Date | null
}

export interface ApiKeyOptions {
  label: string
  grants: readonly Grant[]
  /** Origins of the pages that may use it; `*` is any. Null: a server's key, which no page may use. */
  origins: readonly string[] | null
  /** Maximum changes a minute from one client address, up to MAX_PER_MINUTE; null: the server's default. */
  perMinute: number | null
  /** IDs of the only documents that it may run, as `plainDocumentId` gives them; null: any document. */
  documents: readonly string[] | null
  expiresAt: Date | null
}

export const MAX_PER_MINUTE = 1_000_000

/** Why a text is neither an origin nor `*`; undefined: it is one. */
export function originFault(text: string): Fault | undefined {
  // Browsers send it in this form: no path, no trailing slash, no default port.
  const isOrigin = URL.canParse(text) && new URL(text).origin === text
  if (isOrigin || text === '*') return undefined
  return { message: 'must be an origin such as https://shop.example, without a path, or *' }
}

/** Why the origins of a key or token are invalid; undefined: they are valid. */
export const originsFault = listOf(originFault, 1, MAX_ORIGINS, 'origins')

/**
 * API keys: `nth_`, 128 random bits and their CRC-32, in hexadecimal digits. The checksum distinguishes a mistyped key from an
 * unknown one without a read of the database.
 */
const FORM = /^nth_([0-9a-f]{32})([0-9a-f]{8})$/
const RANDOM_BYTES = 16
const PREFIX_LENGTH = 'nth_'.length + 8

export function createSecret(): string {
  const random = randomBytes(RANDOM_BYTES).toString('hex')
  return `nth_${random}${checksum(random)}`
}

/** Whether a text has the form of an API key. */
export function isSecret(text: string): boolean {
  const [, random = '', sum] = FORM.exec(text) ?? []
  return sum === checksum(random)
}

/** The first characters of a key, by which people and logs identify it. */
export function prefixOf(secret: string): string {
  return secret.slice(0, PREFIX_LENGTH)
}

function checksum(random: string): string {
  return crc32(random).toString(16).padStart(8, '0')
}

/** Kinds of callers, with descriptions for them: the schema's enum is generated from this table. */
export const callerKinds = {
  ANONYMOUS: 'Without credentials.',
  KEY: 'By an API key.',
  TOKEN: 'By a JSON Web Token.',
  ADMIN: "By the administrator's key from the server's configuration.",
}

/** Who sent a request, and what they may do. */
export interface Caller {
  kind: keyof typeof callerKinds
  /** Whose idempotency keys are its own; empty: those without credentials. */
  identity: string
  grants: readonly Grant[]
  /** With kind TOKEN: its `sub`. */
  subject?: string
  /** With kind KEY. */
  key?: ApiKey
  expiresAt?: Date | null
}

/** How the log calls a caller: the prefix of a key, the subject of a token, or the kind of another caller. */
export function nameOf({ key, subject, kind }: Caller): string {
  return key?.prefix ?? subject ?? kind
}

/** A caller without credentials. */
export function anonymous(grants: readonly Grant[]): Caller {
  return { kind: 'ANONYMOUS', identity: '', grants }
}

/** Anyone, on a server that is open to all. */
export const UNRESTRICTED = anonymous([EVERYTHING])

/** Whether a caller has a scope on the names of a target; without one, on any names. */
export function isAllowed({ grants }: Caller, scope: Scope, target?: GrantTarget): boolean {
  return grants.some((grant) => includesScope(grant, scope) && (!target || covers(grant, target)))
}

/** The namespaces in which a caller has a scope on any name; undefined: all. */
export function namespacesOf({ grants }: Caller, scope: Scope): string[] | undefined {
  const names = grants.filter((grant) => includesScope(grant, scope)).map(({ namespace }) => namespace)
  return names.includes(null) ? undefined : names.filter((name) => name !== null)
}

/** Whether a caller may do everything. */
export function isUnrestricted({ grants }: Caller): boolean {
  // Every field checks this.
  for (const { scopes } of grants) if (scopes.includes('ADMIN')) return true
  return false
}

/** Scopes that count: the mutation of each that takes a subject, the limit in its grants, and which scope removes it. */
const counting = {
  ADD: { mutation: 'increment', limit: 'maxDelta', unlimited: 'WRITE' },
  NUMBER: { mutation: 'nextInSequence', limit: 'maxCount', unlimited: 'ADMIN' },
} as const

export type CountingScope = keyof typeof counting

/**
 * The most that a caller may add to a counter in one request, or how many numbers of a sequence in one call: for a
 * subject, or for none. 0: nothing. Negative deltas require Infinity.
 */
export function limitFor(
  caller: Caller,
  scope: CountingScope | 'HOLD',
  target: GrantTarget,
  subject?: string,
): number {
  const { limit, unlimited } = counting[scope === 'HOLD' ? 'ADD' : scope]
  if (isAllowed(caller, unlimited, target)) return Number.POSITIVE_INFINITY
  return Math.max(0, ...grantsOf(caller, scope, target, subject).map((grant) => grant[limit]))
}

/** The grants of a scope on a target that allow a call for a subject, or for none. */
function grantsOf({ grants }: Caller, scope: Scope, target: GrantTarget, subject?: string): Grant[] {
  return grants.filter(
    (grant) =>
      includesScope(grant, scope) && covers(grant, target) && (subject !== undefined || !grant.onceOnly),
  )
}

/** What the subjects of pages are stored with, so that visitors don't reach what servers counted for the ids of users. */
export const PAGE_PREFIX = 'page:'

/** Whoever can name a subject can count for it. A length is no secret: it only keeps pages from sending the ids of users. */
export const MIN_SUBJECT_LENGTH = 16

/** Whether a caller may count on a target, but only for a subject. */
export function isOnceOnly(caller: Caller, scope: CountingScope, target: GrantTarget): boolean {
  return isAllowed(caller, scope, target) && grantsOf(caller, scope, target).length === 0
}

/**
 * The subject for which a call counts, as it is stored; undefined: for none.
 *
 * @param named as the caller named it
 * @throws {NthError} if the caller may not count for it
 */
export function subjectFor(
  caller: Caller,
  scope: CountingScope,
  target: GrantTarget,
  named: string | null | undefined,
): string | undefined {
  if (!isAllowed(caller, scope, target)) throw refusal(caller, scope)
  const mustName = isOnceOnly(caller, scope, target)
  const subject = named ?? (mustName ? caller.subject : undefined)
  if (subject === undefined && mustName) throw onceOnlyRefusal(scope)
  if (subject === undefined) return undefined
  const isOwn = caller.subject === undefined || caller.subject === subject
  if (!isOwn && !isAllowed(caller, 'WRITE', target)) {
    const message =
      'A token may name only its own `sub` as the subject, unless it has the scope WRITE for this name.'
    throw new NthError('FORBIDDEN', message)
  }
  return caller.key?.origins ? subjectOfPage(subject, mustName) : subject
}

/** A subject that a page named, as it is stored. */
function subjectOfPage(subject: string, mustBeLong: boolean): string {
  // A character has one or two UTF-16 units.
  const isShort = subject.length < 2 * MIN_SUBJECT_LENGTH && [...subject].length < MIN_SUBJECT_LENGTH
  const message = `must have at least ${MIN_SUBJECT_LENGTH} characters with this key: use a random token, never an id`
  const tooShort: Fault = { message, limit: MIN_SUBJECT_LENGTH }
  const fault = mustBeLong && isShort ? tooShort : subjectFault(subject, PAGE_PREFIX.length)
  if (fault) throw inputError({ ...fault, path: ['subject'] })
  return PAGE_PREFIX + subject
}

/**
 * The subject of a call that reads what it counted, or takes it back: as it is stored. This requires the right to count for
 * it, and of a page `onceOnly`: otherwise, visitors could try short subjects.
 */
export function countedSubjectFor(...call: Parameters<typeof subjectFor>): string | undefined {
  const subject = subjectFor(...call)
  const [caller, scope, target] = call
  if (!caller.key?.origins || isOnceOnly(caller, scope, target)) return subject
  const message = `With a key for pages, \`uncount\`, \`changeOf\` and \`numbersOf\` require a grant of ${scope} with \`onceOnly\` for this name, and none without it.`
  throw new NthError('FORBIDDEN', message)
}

/** The error for a call without a subject, if the caller may only count for one. */
export function onceOnlyRefusal(scope: CountingScope, details?: ErrorDetails): NthError {
  const message = `The credentials include the scope ${scope} for this name only with a subject: call \`${counting[scope].mutation}\` with \`subject\`.`
  return new NthError('FORBIDDEN', message, details)
}

/**
 * The error for a caller without a right. It depends on the caller and the operation only, so that it doesn't disclose
 * whether a name exists.
 */
export function refusal({ kind }: Caller, scope: Scope, details: ErrorDetails = {}): NthError {
  if (kind === 'ANONYMOUS') {
    const message = `This requires an API key with the scope ${scope}: send it in the header Authorization, as "Bearer nth_…".`
    return new NthError('UNAUTHENTICATED', message, details)
  }
  const { limit } = details
  const message =
    limit === undefined || scope === 'WRITE'
      ? `The credentials do not include the scope ${scope} for this name.`
      : `The credentials include the scope ${scope} for this name only up to ${limit}.`
  return new NthError('FORBIDDEN', message, details)
}
