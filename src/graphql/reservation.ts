import type { Reservation } from '../rules/sequence.ts'
import * as checks from './arguments.ts'
import { decodeId } from './arguments.ts'
import { builder, claimFor, idempotencyKey } from './builder.ts'
import { onItsSequence, onName, onReservation } from './rights.ts'
import { group, SequenceGroup, sequenceArguments } from './sequence.ts'
import { sequenceGroupKey } from './sequenceNumbers.ts'

export const ReservationRef = builder.objectRef<Reservation>('Reservation')

const ReservationStateRef = builder.enumType('ReservationState', {
  description: 'The state of a reservation.',
  values: {
    RESERVED: { description: 'It is open. You can confirm or release it.' },
    CONFIRMED: { description: 'Its number is final.' },
    RELEASED: { description: 'Its number was released, and may be issued again.' },
    EXPIRED: { description: 'It was not confirmed in time. Its number may be issued again.' },
  },
})

builder.node(ReservationRef, {
  description: 'A number that is held until it is confirmed or released, or expires.',
  id: { resolve: ({ token }) => token, description: 'A random ID that cannot be guessed.' },
  loadManyWithoutCache: (tokens, { nth }) => nth.sequences.reservations(tokens.map((token) => ({ token }))),
  fields: (t) => ({
    value: t.expose('value', { type: 'SafeInt', description: 'The number.' }),
    formatted: t.exposeString('formatted', { description: 'The formatted number.' }),
    state: t.expose('state', { type: ReservationStateRef, description: 'Its state.' }),
    expiresAt: t.expose('expiresAt', {
      type: 'DateTime',
      description: 'When it expires, unless it is confirmed or released before.',
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      extensions: { right: onItsSequence() },
      description: 'The sequence group of the number, for client caches. Null if the sequence was deleted.',
      resolve: async ({ token }, _, { nth }) => (await nth.sequences.reservation(token))?.group,
    }),
  }),
})

const { name, namespace } = sequenceArguments

const idOfReservation = builder.args((t) => ({
  id: t.id({
    required: true,
    description: 'The ID of the reservation.',
    extensions: { check: checks.reservationId },
  }),
}))

builder.mutationFields((t) => ({
  reserveInSequence: t.field({
    type: ReservationRef,
    extensions: { right: onName('NUMBER') },
    description:
      'Reserves the first free number of a gapless sequence. With a key, a repeat returns the first reservation in its current state.',
    args: {
      name,
      group,
      ttlSeconds: t.arg.int({
        required: true,
        defaultValue: 300,
        description: 'How long to hold the number, 1 to 86 400 seconds.',
        extensions: { check: checks.ttlSeconds },
      }),
      namespace,
      idempotencyKey,
    },
    resolve: (_, args, context, info) =>
      context.nth.sequences.reserve(sequenceGroupKey(args), args.ttlSeconds, claimFor(args, context, info)),
  }),
  confirmReservation: t.field({
    type: ReservationRef,
    extensions: { right: onReservation() },
    description: 'Makes the number final. A repeat returns the same result.',
    args: idOfReservation,
    resolve: (_, { id }, { nth }) => nth.sequences.confirm(decodeId(id).id),
  }),
  releaseReservation: t.field({
    type: ReservationRef,
    extensions: { right: onReservation() },
    description: 'Releases the number. A repeat returns the same result.',
    args: idOfReservation,
    resolve: (_, { id }, { nth }) => nth.sequences.release(decodeId(id).id),
  }),
}))
