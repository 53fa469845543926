import { isAllowed } from '../../core/access/caller.ts'
import type { Scope, Target } from '../../core/access/grants.ts'
import { noSuchReservation } from '../../core/sequences/state.ts'
import * as checks from '../arguments/checks.ts'
import { decodeId, idFault } from '../arguments/ids.ts'
import { assertAllowed, checkId, ownsReservation } from './rights.ts'
import type { Arguments, Call, Rule } from './rule.ts'
import { selectsState } from './selectedState.ts'

export function none(covers: string): Rule {
  return { scope: undefined, covers, check: () => undefined }
}

export function admin(): Rule {
  return { scope: 'ADMIN', covers: 'everything', check: ({ caller }) => assertAllowed(caller, 'ADMIN') }
}

/** A right on the name in the arguments. A state in the result also requires READ, before anything is changed. */
export function onName(scope: Scope): Rule {
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

export function readOfCounters(): Rule {
  return {
    scope: 'READ',
    covers: 'each name',
    check: () => undefined,
    elements: {
      argument: 'names',
      faultOf: checks.names,
      check: ({ caller }, { namespace }, name) => assertAllowed(caller, 'READ', { namespace, name }),
    },
  }
}

export function readOfNodes(faultOf: typeof checks.ids): Rule {
  return {
    scope: 'READ',
    covers: 'the names in each id',
    check: () => undefined,
    elements: { argument: 'ids', faultOf, check: (context, _, id) => checkId(context, id) },
  }
}

/** A right on all names that start with a prefix. */
export function onPrefix(
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
export function inNamespace(scope: Scope, namespaceOf: (call: Call) => string, other?: Scope): Rule {
  return {
    scope,
    covers: `any name in the namespace${other ? `; or ${other}` : ''}`,
    check({ caller }, call) {
      const target = { namespace: namespaceOf(call) }
      if (!other || !isAllowed(caller, other, target)) assertAllowed(caller, scope, target)
    },
  }
}

export function reached(covers: string, idOf: (args: Arguments) => string): Rule {
  return { scope: 'READ', covers, check: (context, { args }) => checkId(context, idOf(args)) }
}

export function ofReservation(): Rule {
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
