import { type GraphQLResolveInfo, getNamedType } from 'graphql'
import type { CounterDelta } from '../repository/counters.ts'
import type { Hold } from '../repository/holds.ts'
import { NthError } from '../rules/errors.ts'
import { noSuchHold } from '../rules/holds.ts'
import { joinNames, splitNames } from '../rules/names.ts'
import {
  ALL_NAMES,
  type Caller,
  type CountingScope,
  countedSubjectFor,
  type GrantTarget,
  isAllowed,
  isOnceOnly,
  limitFor,
  onceOnlyRefusal,
  refusal,
  type Scope,
  subjectFor,
} from '../rules/rights.ts'
import { noSuchReservation } from '../rules/sequence.ts'
import { decodeId, idFault } from './arguments.ts'
import type { Context } from './context.ts'
import { countSelected } from './selections.ts'

/**
 * The right that a field requires, as its extension `right`: all fields of operations have one, and those below them that
 * lead to something else. A test requires that no field lacks one, and another that `docs/security.md` shows the scope of each
 * mutation. `docs/reference` shows the whole right.
 */
export interface Right {
  /** Undefined: none of its own, as its object was reached with a right. */
  scope: Scope | undefined
  /** What the right must cover, and what else is needed: ends a sentence of the documentation. */
  covers: string
  /** Throws if the caller doesn't have it. Arguments have the types of the schema, but may be invalid. */
  check?(context: Context, call: FieldCall): Subject | undefined | Promise<Verdict>
  /** For fields that return a list of what their list argument has: checks an element of it. */
  checkEach?: CheckEach
}

export type CheckEach = (context: Context, args: Arguments, element: string) => undefined | Promise<Verdict>

/** Missing: to this caller, it doesn't exist. */
type Verdict = 'missing' | undefined

/** Arguments to go on with: the subject as it is stored, which may be the token's. */
type Subject = { subject: string | undefined }

interface FieldCall {
  parent: Arguments
  args: Arguments
  info: GraphQLResolveInfo
}

/** Each right knows the arguments and the parent of its field. */
// biome-ignore lint/suspicious/noExplicitAny: the arguments of a field have types of their own
type Arguments = any

export function none(covers: string): Right {
  return { scope: undefined, covers }
}

/** A right on what a call is about: a name, or all names that start with a prefix. Without a target: on any name. */
export function on(scope: Scope, covers: string, targetOf?: (call: FieldCall) => GrantTarget): Right {
  return { scope, covers, check: ({ caller }, call) => assertAllowed(caller, scope, targetOf?.(call)) }
}

/** A right on all names of a namespace. */
export function onAllNames(scope: Scope, namespaceOf: (call: FieldCall) => string): Right {
  return on(scope, 'all names of the namespace', (call) => ({ namespace: namespaceOf(call), prefix: '' }))
}

export const admin = on('ADMIN', 'everything')

/** A right on the name in the arguments. A state in the result also requires READ, before anything is changed. */
export function onName(scope: Scope): Right {
  return {
    scope,
    covers: 'the name',
    check({ caller, idempotencyKey }, { args: { namespace, name, ...args }, info }) {
      assertAllowed(caller, scope, { namespace, name })
      // A reservation is for no subject.
      if (scope === 'NUMBER' && isOnceOnly(caller, scope, { namespace, name })) throw onceOnlyRefusal(scope)
      const hasKey = idempotencyKey !== undefined || args.idempotencyKey != null
      if (scope !== 'READ' && selectsState(info, hasKey)) assertAllowed(caller, 'READ', { namespace, name })
    },
  }
}

export const onNames: Right = {
  scope: 'READ',
  covers: 'each name',
  checkEach: ({ caller }, { namespace }, name) => assertAllowed(caller, 'READ', { namespace, name }),
}

export const onIds: Right = {
  scope: 'READ',
  covers: 'the names in each id, as in `node`',
  checkEach: (context, _, id) => checkId(context, id),
}

export const PREFIXED = 'all names with the prefix. Without a prefix, these are all names of the namespace'

/** A right to read any name in a namespace, or another one on it. */
export function toReadIn(namespaceOf: (call: FieldCall) => string, other?: Scope): Right {
  return {
    scope: 'READ',
    covers: `any name in the namespace${other ? `, or ${other}` : ''}`,
    check({ caller }, call) {
      const target = { namespace: namespaceOf(call) }
      if (!other || !isAllowed(caller, other, target)) assertAllowed(caller, 'READ', target)
    },
  }
}

export const onId: Right = {
  scope: 'READ',
  covers:
    'the names in the id, or on the sequence of a reservation. A hold needs HOLD on each of its counters',
  check: (context, { args }) => checkId(context, args.id),
}

/** A right to make one addition, or those in the argument `changes`, for no subject. */
export function toAdd(covers: string): Right {
  return { scope: 'ADD', covers, check: (context, { args }) => add(context, args) }
}

/** A right to hold additions. */
export const toHold: Right = {
  scope: 'HOLD',
  covers: 'each name, for 1 to `maxDelta` in one request. Other amounts need WRITE',
  check: (context, { args }) => add(context, args, undefined, 'HOLD'),
}

/** A right to count what is held. A page knows the id of its hold: it must not buy without paying. */
export const toConfirm: Right = {
  scope: 'ADD',
  covers:
    'each name of the hold. Otherwise, the error is NOT_FOUND. Amounts that are not held need WRITE if they are below 1 or above `maxDelta`. A key for pages may not confirm',
  async check(context, { args: { id, changes } }) {
    const { caller } = context
    if (caller.key?.origins)
      throw new NthError('FORBIDDEN', 'A key for pages cannot confirm holds: confirm on a server.')
    const deltas = await heldBy(context, 'ADD', id)
    const held = new Map(deltas?.map(({ key, delta }) => [key?.name, { key, delta }]))
    for (const [index, { name, delta }] of changes?.entries() ?? []) {
      const { key, delta: amount } = held.get(name) ?? {}
      if (!key || delta === 0 || delta === amount) continue
      const limit = limitFor(caller, 'ADD', key)
      const isWithin = delta >= 1 ? delta <= limit : limit === Number.POSITIVE_INFINITY
      if (!isWithin) throw refusal(caller, delta < 1 ? 'WRITE' : 'ADD', { limit, index })
    }
    return undefined
  },
}

export const onHold: Right = {
  scope: 'HOLD',
  covers: 'each name of the hold. Otherwise, the error is NOT_FOUND',
  async check(context, { args: { id } }) {
    await heldBy(context, 'HOLD', id)
    return undefined
  },
}

/**
 * What the hold of an id takes, if the caller has a scope on all of its counters. Undefined: the resolver rejects the id.
 *
 * @throws {NthError} NOT_FOUND
 */
async function heldBy(context: Context, scope: Scope, id: string): Promise<Hold['deltas'] | undefined> {
  assertAllowed(context.caller, scope)
  if (idFault(id) || decodeId(id).typename !== 'Hold') return undefined
  const deltas = await context.nth.holds.deltasOf(decodeId(id).id)
  if (!ownsHold(context.caller, scope, { deltas })) throw noSuchHold()
  return deltas
}

function ownsHold(caller: Caller, scope: Scope, { deltas }: Pick<Hold, 'deltas'>): boolean {
  return deltas.every(({ key }) => !key || isAllowed(caller, scope, key))
}

/** A right to add 1 to a counter, also for a subject. */
export const toIncrement: Right = {
  scope: 'ADD',
  covers: 'the name, for up to `maxDelta` in one request. With `onceOnly`, it needs a subject',
  check(context, { args: { namespace, name, subject: named } }) {
    const subject = subjectFor(context.caller, 'ADD', { namespace, name }, named)
    add(context, { namespace, name, delta: 1 }, subject)
    return subject === undefined ? undefined : { subject }
  },
}

/** Checks additions against what the caller may add to each counter in the whole request. */
function add(context: Context, args: Arguments, subject?: string, scope: 'ADD' | 'HOLD' = 'ADD'): undefined {
  const { caller } = context
  const { namespace } = args
  const changes: readonly CounterDelta[] = args.changes ?? [args]
  const added = new Map(context.added)
  for (const [index, { name, delta }] of changes.entries()) {
    const limit = limitFor(caller, scope, { namespace, name }, subject)
    const key = joinNames(namespace, name, scope)
    const total = (added.get(key) ?? 0) + delta
    const isWithin = delta >= 1 ? total <= limit : limit === Number.POSITIVE_INFINITY
    if (!isWithin) {
      const details = { ...(limit > 0 && { limit }), ...(args.changes && { index }) }
      if (limit === 0 && scope === 'ADD' && isOnceOnly(caller, scope, { namespace, name }))
        throw onceOnlyRefusal(scope, details)
      throw refusal(caller, limit > 0 && delta < 1 ? 'WRITE' : scope, details)
    }
    if (limit < Number.POSITIVE_INFINITY) added.set(key, total)
  }
  context.added = added
}

export const toNumber: Right = {
  scope: 'NUMBER',
  covers: 'the name, for 1 to `maxCount` numbers. With `onceOnly`, it needs a subject',
  check({ caller }, { args: { namespace, name, count, subject: named } }) {
    const subject = subjectFor(caller, 'NUMBER', { namespace, name }, named)
    const limit = limitFor(caller, 'NUMBER', { namespace, name }, subject)
    if (count > limit) throw refusal(caller, 'NUMBER', { limit })
    return subject === undefined ? undefined : { subject }
  },
}

/** A right to what a subject counted, to read it or to take it back: the same as to count for it. */
export function onSubject(scope: CountingScope, targetOf: (call: FieldCall) => GrantTarget): Right {
  return {
    scope,
    covers: 'the name. A key for pages needs a grant with `onceOnly`',
    check({ caller }, call) {
      return { subject: countedSubjectFor(caller, scope, targetOf(call), call.args.subject) }
    },
  }
}

/** A right to read the sequence of a reservation that was reached otherwise. */
export const onItsSequence: Right = {
  scope: 'READ',
  covers: 'the name of its sequence',
  async check(context, { parent }) {
    if (!(await ownsReservation(context, 'READ', parent.token))) throw refusal(context.caller, 'READ')
  },
}

export const onReservation: Right = {
  scope: 'NUMBER',
  covers: 'the name of its sequence. Otherwise, the error is NOT_FOUND',
  async check(context, { args: { id } }) {
    assertAllowed(context.caller, 'NUMBER')
    // The resolver rejects an invalid one.
    if (!idFault(id) && !(await ownsReservation(context, 'NUMBER', decodeId(id).id)))
      throw noSuchReservation()
  },
}

function assertAllowed(caller: Caller, scope: Scope, target?: GrantTarget): undefined {
  if (!isAllowed(caller, scope, target)) throw refusal(caller, scope)
}

function checkId(context: Context, id: string): undefined | Promise<Verdict> {
  const { caller } = context
  // The resolver rejects an invalid one.
  if (idFault(id)) return assertAllowed(caller, 'READ')
  const { typename, id: names } = decodeId(id)
  if (typename === 'ApiKey') return assertAllowed(caller, 'ADMIN')
  if (typename === 'Reservation')
    return ownsReservation(context, 'READ', names).then((owns) => (owns ? undefined : 'missing'))
  if (typename === 'Hold') {
    assertAllowed(caller, 'HOLD')
    return context.nth.holds
      .find(names)
      .then((hold) => (hold && ownsHold(caller, 'HOLD', hold) ? undefined : 'missing'))
  }
  const [namespace = '', name] = splitNames(names)
  return assertAllowed(caller, 'READ', name === undefined ? { namespace } : { namespace, name })
}

/** Whether a caller, who must have a scope, has it on the sequence of a reservation. One that doesn't exist is anyone's. */
async function ownsReservation({ caller, nth }: Context, scope: Scope, token: string): Promise<boolean> {
  assertAllowed(caller, scope)
  if (isAllowed(caller, scope, ALL_NAMES)) return true
  const { group } = (await nth.sequences.reservation(token)) ?? {}
  return !group || isAllowed(caller, scope, { namespace: group.namespace, name: group.sequence })
}

/** Fields with the state of what a mutation returns; the others are its definition, or what the mutation set. */
const countStateOf: Record<string, ReturnType<typeof countSelected>> = {
  Counter: countSelected(
    'value',
    'held',
    'heldDown',
    'holds',
    'valueIn',
    'limits',
    'history',
    'revision',
    'createdAt',
    'updatedAt',
  ),
  Sequence: countSelected('group', 'groups', 'createdAt'),
  SequenceGroup: countSelected('sequence', 'lastValue', 'lastFormatted', 'revision', 'updatedAt'),
}

/** What a mutation set; a repeat with the same key returns the present state instead. */
const countWhatWasSet = countSelected('nextValue', 'nextFormatted')

function selectsState(info: GraphQLResolveInfo, hasKey: boolean): boolean {
  const count = countStateOf[getNamedType(info.returnType).name]?.(info) ?? 0
  return count > 0 || (hasKey && countWhatWasSet(info) > 0)
}
