import type { HeldDelta as HeldDeltaSource, Hold, HoldPosition } from '../repository/holds.ts'
import type { Page } from '../rules/counter.ts'
import { NthError } from '../rules/errors.ts'
import { LONGEST_HOLD_MS, LONGEST_PAGE_HOLD_MS } from '../rules/holds.ts'
import type { Caller } from '../rules/rights.ts'
import * as checks from './arguments.ts'
import { callOptions, decodeId } from './arguments.ts'
import { builder, exposed, idempotencyKey, namespaceArgument } from './builder.ts'
import { Counter } from './counter.ts'
import { CounterChangeRef, CounterDelta } from './counterChange.ts'
import { connectionOf, holdCursors } from './lists.ts'
import { on, onHold, toConfirm, toHold } from './rights.ts'
import { ReservationStateRef } from './sequenceNumbers.ts'

const HoldRef = builder.objectRef<Hold>('Hold')

const HeldDelta = builder.objectRef<HeldDeltaSource>('HeldDelta').implement({
  description: 'What a hold takes of a counter.',
  fields: (t) => ({
    counter: t.field({
      type: Counter,
      nullable: true,
      extensions: { right: on('READ', 'its name', ({ parent }) => parent.key) },
      description: 'The counter. Null if it was deleted, or could not be read.',
      resolve: ({ key }, _, { nth }) => key && nth.counters.read(key),
    }),
    ...exposed(t, { delta: ['SafeInt', 'What is held, as the sum of its changes.'] }),
  }),
})

builder.node(HoldRef, {
  description: 'Additions that are held until they are confirmed or released, or expire.',
  id: { resolve: ({ token }) => token, description: 'A random ID that cannot be guessed.' },
  loadManyWithoutCache: (tokens, { nth }) => nth.holds.readMany(tokens),
  fields: (t) => ({
    ...exposed(t, {
      state: [ReservationStateRef, 'Its state.'],
      expiresAt: ['DateTime', 'When it expires, unless it is confirmed or released before.'],
      deltas: [[HeldDelta], 'What it takes of each counter, in the order of their names.'],
    }),
  }),
})

builder.objectField(Counter, 'holds', (t) =>
  t.connection(
    {
      type: HoldRef,
      nullable: true,
      description:
        'The open holds of this counter. Those that expire first come first. Null only if they could not be read.',
      extensions: { check: checks.page, right: on('WRITE', 'its name', ({ parent }) => parent) },
      async resolve({ namespace, name }, args, context, info) {
        const { nth, owner } = context
        const positions = new Map<string, HoldPosition>()
        async function list(page: Page<HoldPosition>): Promise<Hold[]> {
          const listed = await nth.holds.list({ namespace, name }, page, owner)
          for (const position of listed) positions.set(position.token, position)
          const holds = await nth.holds.readMany(listed.map(({ token }) => token))
          return holds.filter((hold) => hold !== undefined)
        }
        const positionOf = ({ token }: Hold) => positions.get(token) ?? { token, expiresAt: 0, amount: 0 }
        return connectionOf(args, context, info, holdCursors, list, positionOf)
      },
    },
    { name: 'HoldConnection', description: 'A page of holds.' },
    { name: 'HoldEdge', description: 'A hold in a list.' },
  ),
)

const { id, ttlSeconds } = builder.args((t) => ({
  id: t.id({ required: true, description: 'The ID of the hold.', extensions: { check: checks.holdId } }),
  ttlSeconds: t.int({
    required: true,
    defaultValue: 300,
    description: 'How long to hold it from now, 1 to 86 400 seconds. With a key for pages, at most 900.',
    extensions: { check: checks.between(1, LONGEST_HOLD_MS / 1000) },
  }),
}))

/** How far the holds of a caller can be extended, in milliseconds. */
function longestMs({ key }: Caller, ttlSeconds: number): number {
  if (!key?.origins) return LONGEST_HOLD_MS
  const limit = LONGEST_PAGE_HOLD_MS / 1000
  if (ttlSeconds <= limit) return LONGEST_PAGE_HOLD_MS
  throw new NthError('FORBIDDEN', `A key for pages holds for at most ${limit} seconds.`, { limit })
}

const tokenIn = (id: string) => decodeId(id).id

builder.mutationFields((t) => ({
  hold: t.field({
    type: HoldRef,
    extensions: { right: toHold },
    description:
      'Takes additions out of what bounds and limits leave, all or none, without counting them yet. They count when the hold is confirmed, and are given back when it is released or expires. It never saturates. With a key, a repeat returns the same hold in its current state, and extends nothing.',
    args: {
      changes: t.arg({
        type: [CounterDelta],
        extensions: { check: checks.changes },
        required: true,
        description:
          '1 to 1 000 additions, or subtractions, but not 0. The same counter may occur several times: then their sum is held.',
      }),
      namespace: namespaceArgument('The namespace of the counters.'),
      ttlSeconds,
      idempotencyKey,
    },
    resolve(_, args, context, info) {
      const { namespace, changes, ttlSeconds } = args
      const times = { ttlMs: 1000 * ttlSeconds, longestMs: longestMs(context.caller, ttlSeconds) }
      return context.nth.holds.hold(namespace, changes, times, callOptions(args, context, info))
    },
  }),
  confirmHold: t.field({
    type: [CounterChangeRef],
    extensions: { right: toConfirm },
    description:
      'Counts what was held, or `changes` instead, on the same counters: less gives the rest back, and more must fit. A counter that is left out of `changes` counts nothing. The results are in the order of `deltas`. After the hold has expired, it is confirmed if there is room. A repeat returns the first result.',
    args: {
      id,
      changes: t.arg({
        type: [CounterDelta],
        extensions: { check: checks.changes },
        description:
          'Other amounts to count, with the signs of what is held, or 0. By default, what is held.',
      }),
    },
    async resolve(_, { id, changes }, { nth, owner }) {
      const token = tokenIn(id)
      const deltas = await nth.holds.deltasOf(token)
      return nth.holds.confirm({ token, deltas }, changes, { owner, withRevision: true })
    },
  }),
  extendHold: t.field({
    type: HoldRef,
    extensions: { right: onHold },
    description:
      'Moves the expiry of an open hold to `ttlSeconds` from now, at most 24 hours after `hold`; 900 seconds if a key for pages made it.',
    args: { id, ttlSeconds },
    async resolve(_, { id, ttlSeconds }, { nth, caller, owner }) {
      longestMs(caller, ttlSeconds)
      return nth.holds.extend(await nth.holds.read(tokenIn(id)), 1000 * ttlSeconds, { owner })
    },
  }),
  releaseHold: t.field({
    type: HoldRef,
    extensions: { right: onHold },
    description: 'Gives back what is held. A repeat returns the same result.',
    args: { id },
    async resolve(_, { id }, { nth, owner }) {
      return nth.holds.release(await nth.holds.read(tokenIn(id)), { owner })
    },
  }),
}))
