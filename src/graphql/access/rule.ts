import type { GraphQLResolveInfo } from 'graphql'
import type { Scope } from '../../core/access/grants.ts'
import type * as checks from '../arguments/checks.ts'
import type { Context } from '../builder.ts'

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
    faultOf: typeof checks.names | typeof checks.ids
    check(context: Context, args: Arguments, element: string): Verdict | Promise<Verdict>
  }
}

/** Missing: to this caller, it doesn't exist. */
export type Verdict = 'missing' | undefined

/** A call of a field. */
export interface Call {
  parent: unknown
  args: Arguments
  info: GraphQLResolveInfo
}

/** Each rule knows the arguments of its field. */
// biome-ignore lint/suspicious/noExplicitAny: the arguments of a field have a type of its own
export type Arguments = any
