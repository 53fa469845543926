import type { GraphQLResolveInfo } from 'graphql'
import { type Claim, claimOf, keyFault } from '../core/idempotency.ts'
import type { Context } from './builder.ts'
import { inputError } from './inputError.ts'

/** The argument of every mutation that can be sent again without harm. */
export const idempotencyKeyArgument = {
  description:
    'Makes a repeat safe: the same call with the same key counts once, and is told the first answer again. Any text that is used for one thing only, such as a random UUID; also as the HTTP header `Idempotency-Key`.',
} as const

interface Arguments {
  namespace: string
  idempotencyKey?: string | null | undefined
}

/**
 * The claim of a mutation's caller, if it has a key: in the arguments, or in the header of the request. Most
 * have none: so the key is checked here, as its own check made every call dearer by 4 %.
 *
 * @throws {NthError} BAD_USER_INPUT
 */
export function claimFor(args: Arguments, context: Context, info: GraphQLResolveInfo): Claim | undefined {
  const key = args.idempotencyKey ?? context.idempotencyKey
  if (key === undefined) return undefined
  const fault = keyFault(key)
  if (fault) {
    const { message, limit } = fault
    throw inputError({ issues: [{ message, path: ['idempotencyKey'], params: { limit } }] })
  }
  return claimOf(args.namespace, key, [info.fieldName, asked(args, info)])
}

/**
 * What the arguments ask beyond their defaults: so a key still holds when the next version has an argument more,
 * and whoever repeats a call doesn't know of it.
 */
function asked(args: Arguments, { fieldName, parentType }: GraphQLResolveInfo): object {
  const defaults = parentType.getFields()[fieldName]?.args ?? []
  const isDefault = (name: string, value: unknown) =>
    value == null || defaults.some((argument) => argument.name === name && argument.defaultValue === value)
  const { idempotencyKey: _, ...others } = args
  return Object.fromEntries(Object.entries(others).filter(([name, value]) => !isDefault(name, value)))
}
