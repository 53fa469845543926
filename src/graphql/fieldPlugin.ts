import SchemaBuilder, { BasePlugin, type SchemaTypes } from '@pothos/core'
import { type Audited, auditMeasure, refusalMeasure } from '../operations/measures.ts'
import { NthError } from '../rules/errors.ts'
import type { Fault } from '../rules/names.ts'
import { isAllowed, isUnrestricted, nameOf, refusal, type Scope } from '../rules/rights.ts'
import { checked, MAX_ITEMS } from './arguments.ts'
import type { Context, Field, Resolver } from './context.ts'
import { located, locating } from './fieldError.ts'
import type { CheckEach, Right } from './rights.ts'
import { charge, room, SMALL, spend } from './selections.ts'

const ROOTS: readonly string[] = ['Query', 'Mutation', 'Subscription']
/** What an element that is refused costs, in values: an error takes some 50 µs. */
const VALUES_OF_A_REFUSAL = 50
/** Rights to change what callers rely on. */
const AUDITED: readonly (Scope | undefined)[] = ['WRITE', 'DEFINE', 'ADMIN']
/** Cost of a field of an operation, in values: hundreds that fail at once must not run in one tick. */
const VALUES_OF_A_FIELD = 4
/** Work of the checks of an item in a list argument, in values. */
const VALUES_OF_AN_ARGUMENT = 4

/** They wrap a resolver if its field needs it, from the outside in: a field that is refused checks no arguments. */
const WRAPPERS = [locating, gated, permitted, limited, audited, checked]

class FieldPlugin extends BasePlugin<SchemaTypes> {
  /** A root field that fails is null, and the others still apply. */
  override onOutputFieldConfig(field: Field): Field {
    return ROOTS.includes(field.kind) ? { ...field, type: { ...field.type, nullable: true } } : field
  }

  /** Wraps also what decodes global IDs: rights and checks get IDs as they were sent. */
  override wrapArgMappers(...[resolver, field]: Parameters<BasePlugin<SchemaTypes>['wrapArgMappers']>) {
    if (!resolver || resolver === field.subscribe) return resolver
    // Pothos doesn't know the type of the context here.
    return WRAPPERS.reduceRight<Resolver>((inner, wrap) => wrap(field, inner), resolver) as typeof resolver
  }
}

declare module 'graphql' {
  // biome-ignore lint/suspicious/noExplicitAny: as graphql-js declares it
  interface GraphQLFieldExtensions<_TSource, _TContext, _TArgs = any> {
    right?: Right
    /** Checks all arguments, after each of them was checked by its own. */
    check?(args: _TArgs): Fault | undefined
    /** What was changed, if the arguments don't name it. */
    audited?(result: unknown): Partial<Audited>
  }
  interface GraphQLInputFieldExtensions {
    check?(value: unknown): Fault | undefined
  }
}

declare global {
  namespace PothosSchemaTypes {
    interface Plugins<Types extends SchemaTypes> {
      fields: BasePlugin<Types>
    }
  }
}

SchemaBuilder.registerPlugin('fields', FieldPlugin)

/** Checks the right of the caller. A refused field calls nothing: so it sends no statement. */
function permitted(field: Field, resolve: Resolver): Resolver {
  const { check, checkEach } = field.extensions?.right ?? {}
  if (checkEach) return elementwise(field, resolve, checkEach)
  if (!check) return resolve
  return (parent, args, context, info) => {
    const { caller } = context
    // A page's subjects have names of their own, even with ADMIN.
    if (isUnrestricted(caller) && !caller.key?.origins) return resolve(parent, args, context, info)
    const verdict = check(context, { parent, args, info })
    if (verdict instanceof Promise)
      return verdict.then((found) => (found === 'missing' ? null : resolve(parent, args, context, info)))
    return resolve(parent, verdict ? { ...args, ...verdict } : args, context, info)
  }
}

/** Resolves the elements that the caller may see. The others are an error each, or null if they are missing. */
function elementwise(field: Field, resolve: Resolver, check: CheckEach): Resolver {
  const isSubscription = field.kind === 'Subscription'
  const [list] = listsIn(field)
  if (!list) throw new Error('A right on each element of a list, without a list')
  return async (parent, given, context, info) => {
    // A later event of a subscription: its rights were checked at the first one, which has each element once.
    if (isSubscription && parent) return resolve(parent, given, context, info)
    const args = isSubscription ? { ...given, [list.name]: [...new Set(given[list.name])] } : given
    const { caller } = context
    if (isUnrestricted(caller)) return resolve(parent, args, context, info)
    if (!isAllowed(caller, 'READ')) throw refusal(caller, 'READ')
    const elements: string[] = args[list.name]
    // The resolver rejects it, before it does anything.
    if (list.extensions?.check?.(elements)) return resolve(parent, args, context, info)
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

function listsIn({ args }: Field) {
  return Object.values(args).filter(({ type }) => type.kind === 'List')
}

/** Publishes each change that was made, or may have been. */
function audited({ kind, name: field, extensions }: Field, resolve: Resolver): Resolver {
  if (kind !== 'Mutation' || !AUDITED.includes(extensions?.right?.scope)) return resolve
  return async (parent, args, context, info) => {
    const { namespace, name, group, prefix } = args
    const requestId = context.note?.id
    const change = { field, by: nameOf(context.caller), requestId, namespace, name, group, prefix }
    try {
      const result = await resolve(parent, args, context, info)
      auditMeasure.publish({ ...change, ...extensions?.audited?.(result) })
      return result
    } catch (error) {
      if (error instanceof NthError && error.code === 'OUTCOME_UNKNOWN')
        auditMeasure.publish({ ...change, code: error.code })
      throw error
    }
  }
}

/** Counts changes: one for each call, or one for each element of a list. */
function limited({ kind }: Field, resolve: Resolver): Resolver {
  if (kind !== 'Mutation') return resolve
  return (parent, args, context, info) => {
    const retryAfterMs = context.takeChanges?.(args.changes?.length ?? 1) ?? 0
    if (retryAfterMs === 0) return resolve(parent, args, context, info)
    const seconds = Math.ceil(retryAfterMs / 1000)
    const message = `Too many changes in a minute. Nothing was changed; try again in ${seconds} s.`
    refusalMeasure.publish('rate')
    throw new NthError('RATE_LIMITED', message, { retryAfterMs })
  }
}

/** Waits for room before a root field with long lists as arguments. */
function gated(field: Field, resolve: Resolver): Resolver {
  if (!ROOTS.includes(field.kind)) return resolve
  const lists = listsIn(field)
  // A reference of Pothos to the scalar, which has a name.
  const areIds = lists.some(
    ({ type }) => 'type' in type && 'ref' in type.type && (type.type.ref as { name?: string }).name === 'ID',
  )
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
