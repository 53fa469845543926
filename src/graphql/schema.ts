import './counter.ts'
import './counterChange.ts'
import './sequence.ts'
import './sequenceNumbers.ts'
import './namespace.ts'
import './subscription.ts'
import './apiKey.ts'
import './trustedDocument.ts'
import {
  type GraphQLArgument,
  GraphQLID,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isListType,
  isObjectType,
} from 'graphql'
import { type Audited, auditMeasure, refusalMeasure } from '../operations/measures.ts'
import { NthError } from '../rules/errors.ts'
import { isAllowed, isUnrestricted, nameOf, refusal, type Scope } from '../rules/rights.ts'
import { checked, checkOf, MAX_ITEMS } from './arguments.ts'
import { builder } from './builder.ts'
import type { Context, Field, Resolver } from './context.ts'
import { located, locating } from './fieldError.ts'
import type { CheckEach, Right } from './rights.ts'
import { charge, room, SMALL, spend } from './selections.ts'

/** What an element that is refused costs, in values: an error takes some 50 µs. */
const VALUES_OF_A_REFUSAL = 50
/** Rights to change what callers rely on. */
const AUDITED: readonly Scope[] = ['WRITE', 'DEFINE', 'ADMIN']
/** Cost of a field of an operation, in values: hundreds that fail at once must not run in one tick. */
const VALUES_OF_A_FIELD = 4
/** Work of the checks of an item in a list argument, in values. */
const VALUES_OF_AN_ARGUMENT = 4

/** Types and root fields are in the order of the imports above: what most callers need comes first. */
export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })
schema.description =
  'Counters and sequences. `increment` adds 1 to a counter and returns your own number, and `nextInSequence` issues the next number of a sequence, such as MYBOARD-1. Any valid name can be used at once; nothing has to be created first.'

const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]
const types = Object.values(schema.getTypeMap()).filter(isObjectType)
const fields = types.flatMap((type) => Object.values(type.getFields()).map((field) => ({ type, field })))
for (const { type, field } of fields) {
  const isRoot = roots.includes(type)
  // A field that fails is null, and the others still apply.
  if (isRoot) field.type = getNullableType(field.type)
  if (!field.resolve) {
    if (rightOf(field)) throw new Error(`${type}.${field.name} has a right, but no resolver`)
    continue
  }
  // From the inside out: a field that is refused checks no arguments.
  const resolve = permitted(type, field, checked(field, field.resolve))
  field.resolve = locating(field, isRoot ? gated(field, resolve) : resolve)
}

function rightOf({ extensions }: Field): Right | undefined {
  // Only `rights.ts` makes them.
  return extensions.right as Right | undefined
}

/**
 * Wraps the resolver of a field with a right, so that it checks the caller's first, and then the changes that the caller
 * may make in a minute. A refused field calls nothing: so it sends no statement.
 */
function permitted({ name }: GraphQLObjectType, field: Field, resolver: Resolver): Resolver {
  const right = rightOf(field)
  if (!right) return resolver
  const { scope, check, checkEach } = right
  const made = scope && AUDITED.includes(scope) ? audited(field, resolver) : resolver
  const resolve = name === 'Mutation' ? limited(made) : resolver
  if (checkEach) return elementwise(field, resolve, checkEach, name === 'Subscription')
  return (parent, args, context, info) => {
    const { caller } = context
    // A page's subjects have names of their own, even with ADMIN.
    if (!check || (isUnrestricted(caller) && !caller.key?.origins))
      return resolve(parent, args, context, info)
    const verdict = check(context, { parent, args, info })
    if (verdict instanceof Promise)
      return verdict.then((found) => (found === 'missing' ? null : resolve(parent, args, context, info)))
    return resolve(parent, verdict ? { ...args, ...verdict } : args, context, info)
  }
}

/** Resolves the elements that the caller may see. The others are an error each, or null if they are missing. */
function elementwise(
  { args }: Field,
  resolve: Resolver,
  check: CheckEach,
  isSubscription: boolean,
): Resolver {
  const [list] = args.filter(isList)
  if (!list) throw new Error('A right on each element of a list, without a list')
  const faultOf = checkOf(list)
  return async (parent, given, context, info) => {
    // A later event of a subscription: its rights were checked at the first one, which has each element once.
    if (isSubscription && parent) return resolve(parent, given, context, info)
    const args = isSubscription ? { ...given, [list.name]: [...new Set(given[list.name])] } : given
    const { caller } = context
    if (isUnrestricted(caller)) return resolve(parent, args, context, info)
    if (!isAllowed(caller, 'READ')) throw refusal(caller, 'READ')
    const elements: string[] = args[list.name]
    // The resolver rejects it, before it does anything.
    if (faultOf?.(elements)) return resolve(parent, args, context, info)
    const verdicts = await Promise.all(elements.map((element) => verdictOn(element, args, context)))
    const visible = elements.filter((_, index) => verdicts[index] === undefined)
    charge(context, (elements.length - visible.length) * VALUES_OF_A_REFUSAL)
    const visibleArgs = { ...args, [list.name]: visible }
    const found = visible.length > 0 ? await resolve(parent, visibleArgs, context, info) : []
    // The schema requires a list.
    const results = (found as unknown[]).values()
    return verdicts.map((verdict, index) => {
      if (verdict === undefined) return results.next().value
      if (verdict === 'missing') return null
      const path = { prev: info.path, key: index, typename: undefined }
      return located(verdict, context, { path, fieldNodes: info.fieldNodes })
    })
  }

  async function verdictOn(element: string, args: unknown, context: Context) {
    try {
      return await check(context, args, element)
    } catch (error) {
      if (error instanceof NthError && error.code !== 'UNAVAILABLE') return error
      throw error
    }
  }
}

function isList({ type }: GraphQLArgument): boolean {
  return isListType(getNullableType(type))
}

/** Publishes each change that was made, or may have been. */
function audited({ name: field, extensions }: Field, resolve: Resolver): Resolver {
  // Of a field whose arguments don't name what it changes.
  const targetOf = extensions.audited as ((result: unknown) => Partial<Audited>) | undefined
  return async (parent, args, context, info) => {
    const { namespace, name, group, prefix } = args
    const made = { field, by: nameOf(context.caller), requestId: context.note?.id }
    const target = { namespace, name, group, prefix }
    try {
      const result = await resolve(parent, args, context, info)
      auditMeasure.publish({ ...made, ...target, ...targetOf?.(result) })
      return result
    } catch (error) {
      if (error instanceof NthError && error.code === 'OUTCOME_UNKNOWN')
        auditMeasure.publish({ ...made, ...target, code: error.code })
      throw error
    }
  }
}

/** Counts changes: one for each call, or one for each element of a list. */
function limited(resolve: Resolver): Resolver {
  return (parent, args, context, info) => {
    const retryAfterMs = context.takeChanges?.(args.changes?.length ?? 1) ?? 0
    if (retryAfterMs === 0) return resolve(parent, args, context, info)
    const seconds = Math.ceil(retryAfterMs / 1000)
    const message = `Too many changes in a minute. Nothing was changed; try again in ${seconds} s.`
    refusalMeasure.publish('rate')
    throw new NthError('RATE_LIMITED', message, { retryAfterMs })
  }
}

/** Wraps the resolver of a root field, so that it waits for room if it has long lists as arguments. */
function gated({ args: declared }: Field, resolve: Resolver): Resolver {
  const lists = declared.filter(isList)
  const areIds = lists.some(({ type }) => getNamedType(type) === GraphQLID)
  return (parent, args, context, info) => {
    let items = 0
    for (const { name } of lists) items += args[name]?.length ?? 0
    const spent = spend(context, VALUES_OF_A_FIELD)
    // An increment needs nothing of what follows.
    if (items === 0 && spent <= SMALL) return resolve(parent, args, context, info)
    // IDs are decoded before the resolver charges the list of what they identify.
    charge(context, areIds ? Math.min(items, MAX_ITEMS) * VALUES_OF_AN_ARGUMENT : 0)
    const wait = room(context, VALUES_OF_A_FIELD + items * VALUES_OF_AN_ARGUMENT)
    return wait ? wait.then(() => resolve(parent, args, context, info)) : resolve(parent, args, context, info)
  }
}
