import { NthError } from '../../rules/errors.ts'
import {
  covers,
  EVERYTHING,
  type Grant,
  type GrantTarget,
  includesScope,
  type Scope,
} from '../../rules/rights.ts'
import { MAX_BLOCK } from '../../rules/sequenceDefinition.ts'
import type { ApiKey } from './apiKey.ts'

/** Kinds of callers, with descriptions for them: the schema's enum is generated from this table. */
export const callerKinds = {
  ANONYMOUS: { description: 'No credentials.' },
  KEY: { description: 'An API key.' },
  TOKEN: { description: 'A JSON Web Token.' },
  ADMIN: { description: "The administrator's key of the server's configuration." },
}

/** Who sent a request, and what they may do. */
export interface Caller {
  kind: keyof typeof callerKinds
  /** Whose idempotency keys are its own; empty: those without credentials. */
  identity: string
  grants: readonly Grant[]
  /** With kind KEY. */
  key?: ApiKey
  expiresAt?: Date | null
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

/** Whether a caller has a scope on all names. */
export function isAllowedOnAll({ grants }: Caller, scope: Scope): boolean {
  return grants.some(
    (grant) =>
      includesScope(grant, scope) && grant.namespace === null && grant.names === null && grant.prefix === '',
  )
}

/** The namespaces in which a caller has a scope on any name; undefined: all. */
export function namespacesOf({ grants }: Caller, scope: Scope): string[] | undefined {
  const names = grants.filter((grant) => includesScope(grant, scope)).map(({ namespace }) => namespace)
  return names.includes(null) ? undefined : names.filter((name) => name !== null)
}

/** Whether a caller may do everything. */
export function isUnrestricted({ grants }: Caller): boolean {
  // Every field asks this.
  for (const { scopes } of grants) if (scopes.includes('ADMIN')) return true
  return false
}

/** The most that a caller may add to a counter in one request; 0: nothing. Negative deltas require Infinity. */
export function maxDeltaFor(caller: Caller, target: GrantTarget): number {
  if (isAllowed(caller, 'WRITE', target)) return Number.POSITIVE_INFINITY
  return Math.max(0, ...grantsOf(caller, 'ADD', target).map(({ maxDelta }) => maxDelta))
}

/** The most numbers that a caller may issue in a sequence in one call; 0: none. */
export function maxCountFor(caller: Caller, target: GrantTarget): number {
  if (isAllowed(caller, 'ADMIN', target)) return MAX_BLOCK
  return Math.max(0, ...grantsOf(caller, 'NUMBER', target).map(({ maxCount }) => maxCount))
}

function grantsOf({ grants }: Caller, scope: Scope, target: GrantTarget): Grant[] {
  return grants.filter((grant) => includesScope(grant, scope) && covers(grant, target))
}

/**
 * The error for a caller without a right. It depends on the caller and the operation only, so that it doesn't disclose
 * whether a name exists.
 */
export function refusal(
  { kind }: Caller,
  scope: Scope,
  details: { limit?: number; index?: number } = {},
): NthError {
  if (kind === 'ANONYMOUS') {
    const message = `This requires an API key with the scope ${scope}: send it in the header Authorization, as "Bearer nth_…".`
    return new NthError('UNAUTHENTICATED', message, details)
  }
  const beyond = details.limit === undefined ? '' : ` above ${details.limit}`
  return new NthError(
    'FORBIDDEN',
    `The credentials do not include the scope ${scope} for this name${beyond}.`,
    details,
  )
}
