import type { GraphQLResolveInfo } from 'graphql'
import { claimOf, keyFault } from '../../rules/idempotency.ts'
import { inputError } from '../arguments.ts'
import { builder } from '../builder.ts'
import type { Context } from '../context.ts'
import { createMeasure, sumBelow } from '../selections.ts'

/** Argument of every mutation that takes a key. */
export const { idempotencyKey } = builder.args((t) => ({
  idempotencyKey: t.string({
    description:
      'Makes retries safe: the same call with the same key is applied once, and a repeat returns the first result. Any text that is unique to one action, such as a random UUID; also as the HTTP header `Idempotency-Key`.',
  }),
}))

const countRevisions = createMeasure(
  (sum, field, below) => sum + below + (field?.name.value === 'revision' ? 1 : 0),
)

/** Whether the revision of a counter or sequence group is selected anywhere in a mutation's result. */
export const isRevisionSelected = (info: GraphQLResolveInfo) => sumBelow(countRevisions, info) > 0

/** Arguments of a mutation that takes a key. */
export interface KeyedArguments {
  namespace: string
  idempotencyKey?: string | null | undefined
}

/** The options of a call, from its arguments and selection. */
export function callOptions(args: KeyedArguments, context: Context, info: GraphQLResolveInfo) {
  return { claim: claimFor(args, context, info), withRevision: isRevisionSelected(info) }
}

/**
 * Returns the claim of a call with a key, in its arguments or in the request's header. Most calls have none, so the key
 * is checked here: a separate check on the argument made every call 4 % more expensive.
 *
 * @throws {NthError} BAD_USER_INPUT
 */
export function claimFor(args: KeyedArguments, context: Context, info: GraphQLResolveInfo) {
  const key = args.idempotencyKey ?? context.idempotencyKey
  if (key === undefined) return undefined
  const fault = keyFault(key)
  if (fault) throw inputError({ ...fault, path: ['idempotencyKey'] })
  const asked = [info.fieldName, nonDefaultArguments(args, info)]
  return claimOf(args.namespace, key, asked, context.caller.identity)
}

/**
 * The arguments that differ from their defaults. So a key stays valid when a later version adds an argument that a
 * repeated call doesn't send.
 */
function nonDefaultArguments(args: KeyedArguments, { fieldName, parentType }: GraphQLResolveInfo): object {
  const defaults = parentType.getFields()[fieldName]?.args ?? []
  const isDefault = (name: string, value: unknown) =>
    value == null || defaults.some((argument) => argument.name === name && argument.defaultValue === value)
  const { idempotencyKey: _, ...others } = args
  return Object.fromEntries(Object.entries(others).filter(([name, value]) => !isDefault(name, value)))
}
