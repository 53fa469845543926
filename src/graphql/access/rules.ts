import { type GraphQLResolveInfo, getNamedType } from 'graphql'
import {
  type Caller,
  isAllowed,
  isAllowedOnAll,
  maxCountFor,
  maxDeltaFor,
  refusal,
} from '../../core/access/caller.ts'
import type { Scope, Target } from '../../core/access/grants.ts'
import type { CounterDelta } from '../../core/counters/counters.ts'
import { joinNames, splitNames } from '../../core/names.ts'
import { noSuchReservation } from '../../core/sequences/state.ts'
import * as checks from '../arguments/checks.ts'
import { decodeId, idFault } from '../arguments/ids.ts'
import type { Context } from '../builder.ts'
import { createMeasure, sumBelow } from '../selections.ts'

/** The right that a field requires. */
export interface Rule {
  /** Undefined: none of its own, as its object was reached with a right. */
  scope: Scope | undefined
  /** What the right must cover, for the documentation. */
  covers: string
  /** Throws if the caller doesn't have it. Arguments have the types of the schema, but may be invalid. */
  check(context: Context, call: Call): Verdict | Promise<Verdict>
  /** For fields that return a list of what an argument lists: checks an element. */
  elements?: {
    argument: string
    /** The check of the argument, which its resolver makes as well. */
    validate: typeof checks.names | typeof checks.ids
    check(context: Context, args: Arguments, element: string): Verdict | Promise<Verdict>
  }
}

/** Missing: to this caller, it doesn't exist. */
type Verdict = 'missing' | undefined

/** A call of a field. */
interface Call {
  parent: unknown
  args: Arguments
  info: GraphQLResolveInfo
}

/** Each rule knows the arguments of its field. */
// biome-ignore lint/suspicious/noExplicitAny: the arguments of a field have a type of its own
type Arguments = any

/**
 * The right that each operation requires: all fields of Query and Mutation, and those below them that lead to something
 * else. A test requires that the table is complete, and another that `docs/security.md` shows it.
 */
export const rules: Record<string, Rule> = {
  'Query.node': reached('the names in the id; for a reservation, its sequence', ({ id }) => id),
  'Query.nodes': readOfNodes(checks.ids),
  'Query.counter': onName('READ'),
  'Query.counters': readOfCounters(),
  'Query.sequence': onName('READ'),
  'Query.namespace': inNamespace('READ', ({ args }) => args.name),
  'Query.namespaces': {
    scope: 'READ',
    covers: 'any name; it lists the namespaces of the grants',
    check: ({ caller }) => assertAllowed(caller, 'READ'),
  },
  'Query.viewer': none('everyone'),
  'Query.apiKeys': admin(),

  'Subscription.counters': readOfCounters(),
  'Subscription.nodes': readOfNodes(checks.topicIds),

  'Mutation.increment': {
    scope: 'ADD',
    covers: 'the name',
    check: (context, { args }) => spendDeltas(context, args.namespace, [{ name: args.name, delta: 1 }]),
  },
  'Mutation.incrementBy': {
    scope: 'ADD',
    covers: 'the name and the delta; beyond `maxDelta`, or below 1, WRITE',
    check: (context, { args }) => spendDeltas(context, args.namespace, [args]),
  },
  'Mutation.incrementMany': {
    scope: 'ADD',
    covers: 'each name and delta, as in `incrementBy`',
    check: (context, { args }) => spendDeltas(context, args.namespace, args.changes, true),
  },
  'Mutation.reset': onName('WRITE'),
  'Mutation.resetAll': onPrefix('WRITE', ({ args: { namespace, prefix } }) => ({ namespace, prefix })),
  'Mutation.defineCounter': onName('DEFINE'),
  'Mutation.deleteCounter': onName('WRITE'),
  'Mutation.nextInSequence': {
    scope: 'NUMBER',
    covers: 'the name and `count`',
    check: ({ caller }, { args: { namespace, name, count } }) => {
      const limit = maxCountFor(caller, { namespace, name })
      if (limit === 0 || count > limit) throw refusal(caller, 'NUMBER', limit > 0 ? { limit } : {})
    },
  },
  'Mutation.restartSequence': onName('WRITE'),
  'Mutation.reserveInSequence': onName('NUMBER'),
  'Mutation.confirmReservation': ofReservation(),
  'Mutation.releaseReservation': ofReservation(),
  'Mutation.defineSequence': onName('DEFINE'),
  'Mutation.deleteSequence': onName('WRITE'),
  'Mutation.defineNamespace': onPrefix(
    'DEFINE',
    ({ args }) => ({ namespace: args.name, prefix: '' }),
    'all names of the namespace',
  ),
  'Mutation.createApiKey': admin(),
  'Mutation.revokeApiKey': admin(),

  'CounterChange.counter': {
    scope: 'READ',
    covers: 'its name',
    // The key of a change in `counterChange.ts`.
    check: ({ caller }, { parent }) => assertAllowed(caller, 'READ', (parent as { key: Target }).key),
  },
  'SequenceNumbers.group': {
    scope: 'READ',
    covers: 'the name of its sequence',
    // The key of issued numbers in `sequenceNumbers.ts`.
    check({ caller }, { parent }) {
      const { namespace, sequence } = (parent as { key: { namespace: string; sequence: string } }).key
      assertAllowed(caller, 'READ', { namespace, name: sequence })
    },
  },
  'Reservation.group': {
    scope: 'READ',
    covers: 'the name of its sequence',
    async check(context, { parent }) {
      assertAllowed(context.caller, 'READ')
      // A reservation has a token.
      const isOwn = await ownsReservation(context, 'READ', (parent as { token: string }).token)
      if (!isOwn) throw refusal(context.caller, 'READ')
    },
  },
  'Counter.namespace': none('reached with its counter'),
  'Sequence.namespace': none('reached with its sequence'),
  'Sequence.group': none('reached with its sequence'),
  'Sequence.groups': none('reached with its sequence'),
  'SequenceGroup.sequence': none('reached with its sequence group'),
  'Namespace.counters': onPrefix('READ', ({ parent, args: { prefix, orderBy } }) => ({
    namespace: nameOf(parent),
    prefix: orderBy === 'NAME_ASC' ? prefix : '',
  })),
  'Namespace.sequences': onPrefix('READ', ({ parent, args: { prefix } }) => ({
    namespace: nameOf(parent),
    prefix,
  })),
  'Namespace.timeZone': inNamespace('READ', ({ parent }) => nameOf(parent), 'DEFINE'),
  'Namespace.periods': inNamespace('READ', ({ parent }) => nameOf(parent), 'DEFINE'),
}

function none(covers: string): Rule {
  return { scope: undefined, covers, check: () => undefined }
}

function admin(): Rule {
  return { scope: 'ADMIN', covers: 'everything', check: ({ caller }) => assertAllowed(caller, 'ADMIN') }
}

/** A right on the name in the arguments. A state in the result also requires READ, before anything is changed. */
function onName(scope: Scope): Rule {
  return {
    scope,
    covers: 'the name',
    check({ caller, idempotencyKey }, { args: { namespace, name, ...args }, info }) {
      assertAllowed(caller, scope, { namespace, name })
      const hasKey = idempotencyKey !== undefined || args.idempotencyKey != null
      if (scope !== 'READ' && selectsState(info, hasKey)) assertAllowed(caller, 'READ', { namespace, name })
    },
  }
}

function readOfCounters(): Rule {
  return {
    scope: 'READ',
    covers: 'each name',
    check: () => undefined,
    elements: {
      argument: 'names',
      validate: checks.names,
      check: ({ caller }, { namespace }, name) => assertAllowed(caller, 'READ', { namespace, name }),
    },
  }
}

function readOfNodes(validate: typeof checks.ids): Rule {
  return {
    scope: 'READ',
    covers: 'the names in each id',
    check: () => undefined,
    elements: { argument: 'ids', validate, check: (context, _, id) => checkId(context, id) },
  }
}

/** A right on all names that start with a prefix. */
function onPrefix(
  scope: Scope,
  targetOf: (call: Call) => Target,
  covers = 'all names with the prefix; without one, all of the namespace',
): Rule {
  return {
    scope,
    covers,
    check: ({ caller }, call) => assertAllowed(caller, scope, targetOf(call)),
  }
}

/** A right on any name in a namespace, or another one on it. */
function inNamespace(scope: Scope, namespaceOf: (call: Call) => string, other?: Scope): Rule {
  return {
    scope,
    covers: `any name in the namespace${other ? `; or ${other}` : ''}`,
    check({ caller }, call) {
      const target = { namespace: namespaceOf(call) }
      if (!other || !isAllowed(caller, other, target)) assertAllowed(caller, scope, target)
    },
  }
}

function reached(covers: string, idOf: (args: Arguments) => string): Rule {
  return { scope: 'READ', covers, check: (context, { args }) => checkId(context, idOf(args)) }
}

function ofReservation(): Rule {
  return {
    scope: 'NUMBER',
    covers: 'the name of its sequence; otherwise NOT_FOUND',
    async check(context, { args: { id } }) {
      assertAllowed(context.caller, 'NUMBER')
      // The resolver rejects an invalid one.
      const token = idFault(id) ? '' : decodeId(id).id
      if (token && !(await ownsReservation(context, 'NUMBER', token))) throw noSuchReservation()
    },
  }
}

function assertAllowed(caller: Caller, scope: Scope, target?: Target): undefined {
  if (!isAllowed(caller, scope, target)) throw refusal(caller, scope)
}

/** Checks additions against what the caller may add to each counter in the whole request, and counts them. */
function spendDeltas(
  context: Context,
  namespace: string,
  changes: readonly CounterDelta[],
  isMany = false,
): undefined {
  const { caller } = context
  const added = new Map(context.added)
  for (const [index, { name, delta }] of changes.entries()) {
    const limit = maxDeltaFor(caller, { namespace, name })
    const key = joinNames(namespace, name)
    const total = (added.get(key) ?? 0) + delta
    const isWithin = delta >= 1 ? total <= limit : limit === Number.POSITIVE_INFINITY
    if (!isWithin) {
      const details = { ...(limit > 0 && { limit }), ...(isMany && { index }) }
      throw refusal(caller, limit > 0 && delta < 1 ? 'WRITE' : 'ADD', details)
    }
    if (limit < Number.POSITIVE_INFINITY) added.set(key, total)
  }
  context.added = added
}

/** Checks the right to read what an id identifies. */
function checkId(context: Context, id: string): Verdict | Promise<Verdict> {
  const { caller } = context
  // The resolver rejects an invalid one.
  if (idFault(id)) return assertAllowed(caller, 'READ')
  const { typename, id: names } = decodeId(id)
  if (typename === 'ApiKey') return assertAllowed(caller, 'ADMIN')
  if (typename === 'Reservation') {
    assertAllowed(caller, 'READ')
    return ownsReservation(context, 'READ', names).then((owns) => (owns ? undefined : 'missing'))
  }
  const [namespace = '', name] = splitNames(names)
  return assertAllowed(caller, 'READ', name === undefined ? { namespace } : { namespace, name })
}

/** Whether a caller, who has a scope, has it on the sequence of a reservation. One that doesn't exist is anyone's. */
async function ownsReservation({ caller, nth }: Context, scope: Scope, token: string): Promise<boolean> {
  if (isAllowedOnAll(caller, scope)) return true
  const group = await nth.sequences.sequenceGroupOfReservation(token)
  return !group || isAllowed(caller, scope, { namespace: group.namespace, name: group.sequence })
}

// The source of a namespace.
const nameOf = (parent: unknown) => (parent as { name: string }).name

/** Fields with the state of what a mutation returns; the others are its definition, or what the mutation set. */
const selectsStateOf: Record<string, (info: GraphQLResolveInfo) => boolean> = {
  Counter: selectsAny('value', 'valueIn', 'history', 'revision', 'createdAt', 'updatedAt'),
  Sequence: selectsAny('group', 'groups', 'createdAt'),
  SequenceGroup: selectsAny('sequence', 'lastValue', 'lastFormatted', 'revision', 'updatedAt'),
}

/** What a mutation set; a repeat with the same key returns the present state instead. */
const selectsWhatWasSet = selectsAny('nextValue', 'nextFormatted')

function selectsState(info: GraphQLResolveInfo, hasKey: boolean): boolean {
  const selects = selectsStateOf[getNamedType(info.returnType).name]?.(info) ?? false
  return selects || (hasKey && selectsWhatWasSet(info))
}

function selectsAny(...names: string[]) {
  const count = createMeasure((sum, field, below) =>
    field ? sum + Number(names.includes(field.name.value)) : sum + below,
  )
  return (info: GraphQLResolveInfo) => sumBelow(count, info) > 0
}
