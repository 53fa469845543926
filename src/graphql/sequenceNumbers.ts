import { inputError } from '../rules/names.ts'
import {
  type Reservation,
  type SequenceGroupKey,
  type SequenceKey,
  type SequenceNumbers,
  sequenceGroupAfter,
  writerFor,
} from '../rules/sequence.ts'
import { MAX_BLOCK, MAX_LISTED, numbersOf } from '../rules/sequenceDefinition.ts'
import * as checks from './arguments.ts'
import { callOptions, decodeId } from './arguments.ts'
import { addEnum, builder, exposed, idempotencyKey, parts, requiredSubject, subject } from './builder.ts'
import type { Context } from './context.ts'
import { on, onItsSequence, onName, onReservation, onSubject, toNumber } from './rights.ts'
import { charge, chargeSubject, costOfText, countSelected, room } from './selections.ts'
import { group, SequenceGroup, type SequenceGroupSource, sequenceArguments } from './sequence.ts'

export const MAX_TTL_S = 86_400

/** Cost of a formatted number, in values: its format isn't known before it is issued, and may have 191 characters. */
const VALUES_OF_A_TEXT = 4

const SequenceNumbersRef = builder.objectRef<SequenceNumbers>('SequenceNumbers').implement({
  description: 'The numbers that one call issued.',
  fields: (t) => ({
    ...parts(t, issuedIn, { value: ['SafeInt', 'Your number. In a block, it is the first one.'] }),
    formatted: t.string({
      description: 'Your formatted number, such as MYBOARD-1.',
      resolve: (numbers) => writerFor(numbers)(numbers.issued.value),
    }),
    ...parts(t, issuedIn, {
      count: ['Int', 'How many numbers were issued.'],
      step: ['SafeInt', 'The difference between consecutive numbers.'],
      lastValue: ['SafeInt', 'The last number of the block.'],
    }),
    values: t.field({
      type: ['SafeInt'],
      nullable: true,
      description: 'All numbers. Null if there are more than 2 000; then count from `value` by `step`.',
      resolve: listed,
    }),
    formattedValues: t.stringList({
      nullable: true,
      description: 'All formatted numbers. Null if there are more than 2 000.',
      resolve: async (numbers, args, context) =>
        (await listed(numbers, args, context))?.map(writerFor(numbers)) ?? null,
    }),
    ...exposed(t, {
      at: ['DateTime', 'When the numbers were issued. This determines the date in their format.'],
    }),
    alreadyIssued: t.boolean({
      description:
        'Whether the subject had its number before. If so, this is that number, with the text and the time that it had then.',
      resolve: ({ issued }) => issued.earlier !== undefined,
    }),
    replayed: t.exposeBoolean('isReplayed', {
      description: 'Whether this is the result of an earlier call with the same idempotency key.',
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      extensions: { right: on('READ', 'the name of its sequence', ({ parent }) => sequenceOf(parent.key)) },
      description:
        'The sequence group after this call, for client caches. If the call is replayed, or its subject had a number before, this is its current state. Null only if it could not be read; the numbers were issued.',
      resolve: (numbers, _, { nth }): SequenceGroupSource | Promise<SequenceGroupSource> =>
        numbers.isReplayed || numbers.issued.earlier
          ? nth.sequences.readSequenceGroup(numbers.key)
          : sequenceGroupAfter(numbers),
    }),
  }),
})

builder.objectField(SequenceGroup, 'numbersOf', (t) =>
  t.field({
    type: SequenceNumbersRef,
    nullable: true,
    extensions: { right: onSubject('NUMBER', ({ parent }) => sequenceOf(parent)) },
    description:
      'The result of the first call of this subject. Null if it has no number. A key for pages needs `onceOnly` for this, and reads only the numbers of pages. Not available in subscriptions.',
    args: { subject: requiredSubject('Whose number.') },
    async resolve(key, { subject }, context, info) {
      await chargeSubject(context, info)
      return context.nth.sequences.numbersOf(key, subject, context.owner)
    },
  }),
)

function sequenceOf({ namespace, sequence: name }: SequenceGroupKey): SequenceKey {
  return { namespace, name }
}

function issuedIn({ issued }: SequenceNumbers) {
  return issued
}

async function listed({ issued }: SequenceNumbers, _: unknown, context: Context): Promise<number[] | null> {
  if (issued.count > MAX_LISTED) return null
  await room(context, issued.count)
  return numbersOf(issued)
}

export const ReservationRef = builder.objectRef<Reservation>('Reservation')

export const ReservationStateRef = addEnum('ReservationState', 'The state of a reservation or a hold.', {
  RESERVED: 'It is open. You can confirm or release it.',
  CONFIRMED: 'Its number is final, or its additions were counted.',
  RELEASED: 'Its number was released, and may be issued again; or what was held was given back.',
  EXPIRED:
    'It was not confirmed in time, or before its sequence group was restarted. Its number may be issued again; what was held was given back.',
})

builder.node(ReservationRef, {
  description: 'A number that is held until it is confirmed or released, or expires.',
  id: { resolve: ({ token }) => token, description: 'A random ID that cannot be guessed.' },
  loadManyWithoutCache: (tokens, { nth }) => nth.sequences.reservations(tokens.map((token) => ({ token }))),
  fields: (t) => ({
    ...exposed(t, {
      value: ['SafeInt', 'The number.'],
      formatted: ['String', 'The formatted number.'],
      state: [ReservationStateRef, 'Its state.'],
      expiresAt: ['DateTime', 'When it expires, unless it is confirmed or released before.'],
    }),
    group: t.field({
      type: SequenceGroup,
      nullable: true,
      extensions: { right: onItsSequence },
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

const countValues = countSelected('values')
const countFormattedValues = countSelected('formattedValues')

builder.mutationFields((t) => ({
  nextInSequence: t.field({
    type: SequenceNumbersRef,
    extensions: { right: toNumber },
    description:
      'Issues the next number, or a block of up to 1 000 000. If the sequence wraps around, a block has at most 2 000. With a `subject`, it issues one number, only the first time in each group, and in each period if the sequence restarts.',
    args: {
      name,
      group,
      count: t.arg.int({
        required: true,
        defaultValue: 1,
        description: 'How many numbers to issue, 1 to 1 000 000: all or none.',
        extensions: { check: checks.between(1, MAX_BLOCK) },
      }),
      namespace,
      subject,
      idempotencyKey,
    },
    resolve(_, args, context, info) {
      const texts = countFormattedValues(info) * (VALUES_OF_A_TEXT + costOfText(args.group.length))
      // Before anything is issued: numbers that can't be listed would be lost.
      if (args.count <= MAX_LISTED) charge(context, args.count * (countValues(info) + texts))
      const [key, options] = [sequenceGroupKey(args), callOptions(args, context, info)]
      if (args.subject == null) return context.nth.sequences.next(key, args.count, options)
      if (args.count > 1) throw inputError({ message: 'must be 1 with a subject', limit: 1, path: ['count'] })
      return context.nth.sequences.nextOnce(key, args.subject, options)
    },
  }),
  restartSequence: t.field({
    type: SequenceGroup,
    extensions: { right: onName('WRITE') },
    description:
      'Sets the next number of a sequence group, to continue numbers from elsewhere or to issue some again. With `restartEvery`, it sets the next number of the current period. In a gapless sequence, it closes the open reservations of that period, and fails at or before a confirmed number, unless `allowRepeats` is set.',
    args: {
      name,
      group,
      nextValue: t.arg({ type: 'SafeInt', description: 'The next number. The default is `startValue`.' }),
      namespace,
      idempotencyKey,
    },
    async resolve(_, args, context, info): Promise<SequenceGroupSource> {
      const { key, nextValue, nextFormatted, revision, isReplayed } = await context.nth.sequences.restart(
        sequenceGroupKey(args),
        args.nextValue,
        callOptions(args, context, info),
      )
      return isReplayed ? key : { ...key, nextValue, nextFormatted, revision }
    },
  }),
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
        extensions: { check: checks.between(1, MAX_TTL_S) },
      }),
      namespace,
      idempotencyKey,
    },
    resolve(_, args, context, info) {
      const { claim, owner } = callOptions(args, context, info)
      return context.nth.sequences.reserve(sequenceGroupKey(args), args.ttlSeconds, claim, owner)
    },
  }),
  confirmReservation: t.field({
    type: ReservationRef,
    extensions: { right: onReservation },
    description: 'Makes the number final. A repeat returns the same result.',
    args: idOfReservation,
    resolve: (_, { id }, { nth, owner }) => nth.sequences.confirm(decodeId(id).id, owner),
  }),
  releaseReservation: t.field({
    type: ReservationRef,
    extensions: { right: onReservation },
    description: 'Releases the number. A repeat returns the same result.',
    args: idOfReservation,
    resolve: (_, { id }, { nth, owner }) => nth.sequences.release(decodeId(id).id, owner),
  }),
}))

function sequenceGroupKey(args: SequenceKey & { group: string }): SequenceGroupKey {
  return { namespace: args.namespace, sequence: args.name, group: args.group }
}
