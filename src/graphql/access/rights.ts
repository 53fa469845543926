import { type Caller, isAllowed, isAllowedOnAll, maxDeltaFor, refusal } from '../../core/access/caller.ts'
import type { Scope, Target } from '../../core/access/grants.ts'
import type { CounterDelta } from '../../core/counters/counters.ts'
import { joinNames, splitNames } from '../../core/names.ts'
import { decodeId, idFault } from '../arguments/ids.ts'
import type { Context } from '../builder.ts'
import type { Verdict } from './rule.ts'

export function assertAllowed(caller: Caller, scope: Scope, target?: Target): undefined {
  if (!isAllowed(caller, scope, target)) throw refusal(caller, scope)
}

/** Checks additions against what the caller may add to each counter in the whole request, and counts them. */
export function spendDeltas(
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
export function checkId(context: Context, id: string): Verdict | Promise<Verdict> {
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
export async function ownsReservation(
  { caller, nth }: Context,
  scope: Scope,
  token: string,
): Promise<boolean> {
  if (isAllowedOnAll(caller, scope)) return true
  const group = await nth.sequences.sequenceGroupOfReservation(token)
  return !group || isAllowed(caller, scope, { namespace: group.namespace, name: group.sequence })
}
