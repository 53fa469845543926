import type { Reservation } from '../core/numberState.ts'
import { builder } from './builder.ts'
import * as checks from './checks.ts'
import { claimFor, idempotencyKeyArgument } from './idempotency.ts'
import { decodeId } from './ids.ts'
import { groupArgument, SequenceGroup, sequenceNameArgument, sequenceNamespaceArgument } from './sequence.ts'
import { groupIn } from './sequenceNumbers.ts'

const ReservationRef = builder.objectRef<Reservation>('Reservation')

const ReservationStateRef = builder.enumType('ReservationState', {
  description: 'Where a reservation stands.',
  values: {
    RESERVED: { description: 'Open: it can be confirmed or given back.' },
    CONFIRMED: { description: 'Its number is final.' },
    RELEASED: { description: 'Its number was given back.' },
    EXPIRED: { description: 'Its time was over: its number was given back.' },
  },
})

builder.node(ReservationRef, {
  description: 'A number held until it is confirmed, given back, or expires.',
  id: { resolve: ({ token }) => token, description: 'Random, not guessable.' },
  loadManyWithoutCache: (tokens, { nth }) =>
    Promise.all(tokens.map(async (token) => (await nth.sequences.reservation(token)) ?? null)),
  fields: (t) => ({
    value: t.expose('value', { type: 'SafeInt', description: 'The number.' }),
    formatted: t.exposeString('formatted', { description: 'The number as text.' }),
    state: t.expose('state', { type: ReservationStateRef, description: 'Where it stands.' }),
    expiresAt: t.field({
      type: 'DateTime',
      description: 'Confirm before this.',
      resolve: ({ expiresAt }) => new Date(expiresAt),
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      description: 'The group that its number is of, for client caches. Null: the sequence was deleted.',
      resolve: ({ token }, _, { nth }) => nth.sequences.groupOfReservation(token),
    }),
  }),
})

const idArgument = {
  required: true,
  description: 'The id of the reservation.',
  validate: checks.reservationId,
} as const

builder.mutationFields((t) => ({
  reserveInSequence: t.field({
    type: ReservationRef,
    nullable: true,
    description:
      'Holds the lowest free number of a gapless sequence. With a key, a repeat is told of the first reservation as it stands then.',
    args: {
      name: t.arg.string(sequenceNameArgument),
      group: t.arg.string(groupArgument),
      ttlSeconds: t.arg.int({
        required: true,
        defaultValue: 300,
        description: 'For how long, from 1 to 86 400 seconds.',
        validate: checks.ttlSeconds,
      }),
      namespace: t.arg.string(sequenceNamespaceArgument),
      idempotencyKey: t.arg.string(idempotencyKeyArgument),
    },
    resolve: (_, args, context, info) =>
      context.nth.sequences.reserve(groupIn(args), args.ttlSeconds, claimFor(args, context, info)),
  }),
  confirmReservation: t.field({
    type: ReservationRef,
    nullable: true,
    description: 'Makes the number final; again: the same answer.',
    args: { id: t.arg.id(idArgument) },
    resolve: (_, { id }, { nth }) => nth.sequences.confirm(decodeId(id).id),
  }),
  releaseReservation: t.field({
    type: ReservationRef,
    nullable: true,
    description: 'Gives the number back; again: the same answer.',
    args: { id: t.arg.id(idArgument) },
    resolve: (_, { id }, { nth }) => nth.sequences.release(decodeId(id).id),
  }),
}))
