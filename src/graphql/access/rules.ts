import { maxCountFor, refusal } from '../../core/access/caller.ts'
import type { Target } from '../../core/access/grants.ts'
import * as checks from '../arguments/checks.ts'
import { assertAllowed, ownsReservation, spendDeltas } from './rights.ts'
import type { Rule } from './rule.ts'
import {
  admin,
  inNamespace,
  none,
  ofReservation,
  onName,
  onPrefix,
  reached,
  readOfCounters,
  readOfNodes,
} from './ruleKinds.ts'

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

// The source of a namespace.
const nameOf = (parent: unknown) => (parent as { name: string }).name
