import type { PothosOutputFieldConfig, SchemaTypes } from '@pothos/core'
import type { GraphQLFieldResolver } from 'graphql'
import type { Topic, Watched } from '../repository/live.ts'
import type { Nth } from '../repository/nth.ts'
import type { Caller } from '../rules/rights.ts'
import type { Owner } from '../rules/turns.ts'
import type { Gate } from './gate.ts'

/** What the resolvers of one request share. */
export interface Context {
  nth: Nth
  caller: Caller
  /** Whose turns its long work and its reads have. */
  owner: Owner
  gate: Gate
  /**
   * Takes changes from what the caller may do in a minute. Returns the pause until so many are allowed, in
   * milliseconds; 0: they are allowed now. Default: no limit.
   */
  takeChanges?: ((count: number) => number) | undefined
  /** What this request adds to each counter, if that is limited. */
  added?: ReadonlyMap<string, number>
  /** Under whose `id` its log lines are found. */
  note?: { readonly id: string }
  /** From the request's `Idempotency-Key` header. */
  idempotencyKey?: string | undefined
  /** In the first event of a subscription: watches topics, and reads them. */
  watch?: (topics: readonly Topic[]) => Promise<readonly Watched[]>
  /** Values that were charged so far to the budget of this request. */
  spentValues?: number
  /** Receives `spentValues`, if the caller requested the cost. */
  cost?: { values: number } | undefined
  errorsBelow?: number
}

export type Resolver = GraphQLFieldResolver<unknown, Context>
export type Field = PothosOutputFieldConfig<SchemaTypes>
