import './apiKey.ts'
import './counter.ts'
import './counterChange.ts'
import './sequence.ts'
import './reservation.ts'
import './sequenceNumbers.ts'
import './namespace.ts'
import './subscription.ts'
import {
  type GraphQLField,
  GraphQLID,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isListType,
  isObjectType,
} from 'graphql'
import { refusalMeasure } from '../operations/measures.ts'
import { NthError } from '../rules/errors.ts'
import { isAllowed, isUnrestricted, refusal } from '../rules/rights.ts'
import { checkArguments, MAX_ITEMS } from './arguments.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { locateErrors } from './fieldError.ts'
import type { Right } from './rights.ts'
import { charge, room, SMALL } from './selections.ts'

type Field = GraphQLField<unknown, Context>
type ContextResolver = NonNullable<Field['resolve']>
type ArgumentValues = Record<string, unknown>

/** What an element that is refused costs, in values: an error takes some 50 µs. */
const VALUES_OF_A_REFUSAL = 50

/** The fields that require a right, with their type. */
export function fieldsWithRights(schema: GraphQLSchema): { type: string; field: Field; right: Right }[] {
  return Object.values(schema.getTypeMap()).flatMap((type) => {
    const fields: Field[] = isObjectType(type) ? Object.values(type.getFields()) : []
    return fields.flatMap((field) => {
      // Only `rights.ts` makes them.
      const right = field.extensions.right as Right | undefined
      return right ? [{ type: type.name, field, right }] : []
    })
  })
}

/**
 * Wraps the resolvers of all fields with a right, so that they check the caller's first, and then the changes that the
 * caller may make in a minute. A refused field calls nothing: so it sends no statement.
 */
function enforceAccess(schema: GraphQLSchema): void {
  for (const { type, field, right } of fieldsWithRights(schema)) {
    if (!field.resolve) throw new Error(`${type}.${field.name} has a right, but no resolver`)
    const resolve = type === 'Mutation' ? limited(field.resolve) : field.resolve
    const enforced = right.elements ? elementwise(resolve, right.elements) : whole(resolve, right)
    field.resolve = type === 'Subscription' ? eventwise(enforced, resolve, right) : enforced
  }
}

function whole(resolve: ContextResolver, { check }: Right): ContextResolver {
  return (parent, args, context, info) => {
    if (isUnrestricted(context.caller)) return resolve(parent, args, context, info)
    const verdict = check(context, { parent, args, info })
    if (!(verdict instanceof Promise))
      return verdict === 'missing' ? null : resolve(parent, args, context, info)
    return verdict.then((found) => (found === 'missing' ? null : resolve(parent, args, context, info)))
  }
}

/** Resolves the elements that the caller may see. The others are an error each, or null if they are missing. */
function elementwise(
  resolve: ContextResolver,
  { argument, check, faultOf }: NonNullable<Right['elements']>,
): ContextResolver {
  return async (parent, args, context, info) => {
    const { caller } = context
    if (isUnrestricted(caller)) return resolve(parent, args, context, info)
    if (!isAllowed(caller, 'READ')) throw refusal(caller, 'READ')
    // The schema requires a list of texts.
    const elements = (args as ArgumentValues)[argument] as string[]
    // The resolver rejects it, before it does anything.
    if (faultOf(elements)) return resolve(parent, args, context, info)
    const verdicts = await Promise.all(elements.map((element) => verdictOn(element, args, context)))
    const visible = elements.filter((_, index) => verdicts[index] === undefined)
    charge(context, (elements.length - visible.length) * VALUES_OF_A_REFUSAL)
    // An empty list may be refused for its length.
    const isResolved = visible.length > 0 || elements.length === 0
    const found = isResolved ? await resolve(parent, { ...args, [argument]: visible }, context, info) : []
    const results = (found as unknown[]).values()
    return verdicts.map((verdict) => {
      if (verdict === undefined) return results.next().value
      return verdict === 'missing' ? null : verdict
    })
  }

  async function verdictOn(element: string, args: unknown, context: Context) {
    try {
      return (await check(context, args, element)) ?? undefined
    } catch (error) {
      if (error instanceof NthError && error.code !== 'UNAVAILABLE') return error
      throw error
    }
  }
}

/** Checks the rights at the first event of a subscription, which has each element once. */
function eventwise(first: ContextResolver, later: ContextResolver, { elements }: Right): ContextResolver {
  const { argument } = elements ?? { argument: '' }
  return (changed, args, context, info) => {
    if (changed) return later(changed, args, context, info)
    // The schema requires a list of texts.
    const asked = (args as ArgumentValues)[argument] as string[]
    return first(changed, { ...args, [argument]: [...new Set(asked)] }, context, info)
  }
}

/** Counts changes: one for each call, or one for each element of a list. */
function limited(resolve: ContextResolver): ContextResolver {
  return (parent, args: { changes?: unknown[] }, context, info: GraphQLResolveInfo) => {
    const { takeChanges } = context
    const retryAfterMs = takeChanges?.(args.changes?.length ?? 1) ?? 0
    if (retryAfterMs === 0) return resolve(parent, args, context, info)
    const message = 'Too many changes in a minute. Nothing was changed; wait before the next one.'
    refusalMeasure.publish('rate')
    throw new NthError('RATE_LIMITED', message, { retryAfterMs })
  }
}

/** Cost of a field of an operation, in values: hundreds that fail at once must not run in one tick. */
const VALUES_OF_A_FIELD = 4
/** Work of the checks of an item in a list argument, in values. */
const VALUES_OF_AN_ARGUMENT = 4

export const schema: GraphQLSchema = builder.toSchema({ sortSchema: false })

// What is wrapped first is called last: a field that is refused checks no arguments.
checkArguments(schema)
enforceAccess(schema)
for (const root of [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]) {
  for (const field of Object.values(root?.getFields() ?? {})) {
    // A field that fails is null, and the others still apply.
    field.type = getNullableType(field.type)
    const { resolve } = field
    if (!resolve) continue
    const lists = field.args.filter(({ type }) => isListType(getNullableType(type)))
    const areIds = lists.some(({ type }) => getNamedType(type) === GraphQLID)
    field.resolve = (parent, args, context, info) => {
      let items = 0
      for (const { name } of lists) items += args[name]?.length ?? 0
      context.spentValues = (context.spentValues ?? 0) + VALUES_OF_A_FIELD
      // An increment needs nothing of what follows.
      if (items === 0 && context.spentValues <= SMALL) return resolve(parent, args, context, info)
      const values = items * VALUES_OF_AN_ARGUMENT
      // IDs are decoded before the resolver charges the list of what they identify.
      charge(context, areIds ? Math.min(items, MAX_ITEMS) * VALUES_OF_AN_ARGUMENT : 0)
      const wait = room(context, VALUES_OF_A_FIELD + values)
      return wait
        ? wait.then(() => resolve(parent, args, context, info))
        : resolve(parent, args, context, info)
    }
  }
}
locateErrors(schema)
