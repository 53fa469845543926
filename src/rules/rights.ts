import { type Fault, nameFault, textFault } from './names.ts'
import { MAX_BLOCK } from './sequenceDefinition.ts'

/** What a caller may be allowed to do, with descriptions for callers: the schema's enum is generated from this table. */
export const scopes = {
  READ: { description: 'Queries, and the state of a counter or sequence group in a result.' },
  ADD: { description: 'Increments of 1 to `maxDelta` for each request and counter.' },
  NUMBER: { description: 'Next numbers, up to `maxCount` at a time; reservations.' },
  WRITE: { description: 'Any delta; reset, resetAll, restartSequence, deleteSequence.' },
  DEFINE: { description: 'Definitions of counters, sequences and namespaces.' },
  ADMIN: { description: 'API keys, and everything else.' },
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
}

/** Names that an operation concerns: one, or all that start with a prefix. */
export interface GrantTarget {
  namespace: string
  name?: string
  prefix?: string
}

export const MAX_GRANTS = 100
export const MAX_NAMES = 100

/** A grant of scopes on every name. */
export function grantOf(...granted: readonly Scope[]): Grant {
  return { scopes: granted, namespace: null, names: null, prefix: '', maxDelta: 1, maxCount: 1 }
}

/** A grant of everything. */
export const EVERYTHING = grantOf(...SCOPES)

/** Whether a grant includes a scope: ADMIN includes all, WRITE includes ADD. */
export function includesScope({ scopes }: Grant, scope: Scope): boolean {
  return scopes.includes(scope) || scopes.includes('ADMIN') || (scope === 'ADD' && scopes.includes('WRITE'))
}

/** Whether a grant covers all the names of a target; without a name and a prefix, any of them in the namespace. */
export function covers({ namespace, names, prefix }: Grant, target: GrantTarget): boolean {
  if (namespace !== null && namespace !== target.namespace) return false
  if (target.name !== undefined) {
    return names === null ? target.name.startsWith(prefix) : names.includes(target.name)
  }
  return target.prefix === undefined || (names === null && target.prefix.startsWith(prefix))
}

/** Why a grant is invalid; undefined: it is valid. `path`: the part of it that is. */
export function grantFault(grant: Grant): (Fault & { path: (string | number)[] }) | undefined {
  const { scopes, namespace, names, prefix, maxDelta, maxCount } = grant
  if (scopes.length === 0) return { message: 'must not be empty', path: ['scopes'] }
  const isLimited = namespace !== null || names !== null || prefix !== ''
  if (scopes.includes('ADMIN') && isLimited)
    return {
      message: 'cannot be combined with "namespace", "names" or "prefix" if it has ADMIN',
      path: ['scopes'],
    }
  const namespaceFault = namespace === null ? undefined : nameFault(namespace)
  if (namespaceFault) return { ...namespaceFault, path: ['namespace'] }
  if (names !== null) {
    if (prefix !== '') return { message: 'cannot be combined with "prefix"', path: ['names'] }
    if (names.length === 0 || names.length > MAX_NAMES) {
      const message = `must have 1 to ${MAX_NAMES} names; it has ${names.length}`
      return { message, limit: names.length === 0 ? 1 : MAX_NAMES, path: ['names'] }
    }
    for (const [index, name] of names.entries()) {
      const fault = nameFault(name)
      if (fault) return { ...fault, path: ['names', index] }
    }
  }
  const prefixFault = textFault(prefix)
  if (prefixFault) return { ...prefixFault, path: ['prefix'] }
  if (maxDelta < 1) return { message: `must be at least 1; it is ${maxDelta}`, limit: 1, path: ['maxDelta'] }
  if (maxCount >= 1 && maxCount <= MAX_BLOCK) return undefined
  const limit = maxCount < 1 ? 1 : MAX_BLOCK
  return { message: `must be from 1 to ${MAX_BLOCK}; it is ${maxCount}`, limit, path: ['maxCount'] }
}
