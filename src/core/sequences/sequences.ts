import { randomBytes } from 'node:crypto'
import type { SequenceStore } from '../../repository/sequences.ts'
import { NthError } from '../../rules/errors.ts'
import type { Claim } from '../../rules/idempotency.ts'
import { notGapless } from '../../rules/sequence.ts'
import type { Means } from '../counters/counters.ts'
import { keyText, type PageByName } from '../counters/state.ts'
import { batchReads } from '../eventLoop/batchReads.ts'
import { type Applied, MissingRow, onSequenceGroup, type Request } from '../groupCommit/request.ts'
import type { SequenceDefinitionChange } from './definition.ts'
import { noSuchReservation, type Reservation, type SequenceOperation, type SequenceResult } from './state.ts'
import {
  type SequenceGroupKey,
  type SequenceKey,
  type SequenceNumbers,
  type SequenceState,
  sequenceGroupKeyText,
} from './store.ts'

/** Options of a call on a sequence group. */
type SequenceCallOptions = Pick<Request, 'claim' | 'withRevision'>

const TOKEN_BYTES = 16

export type Sequences = ReturnType<typeof openSequences>

export function openSequences({ store, groupCommit, retentionIn, now, deadline }: Means<SequenceStore>) {
  const { read, readMany } = batchReads(keyText, store.readSequences, unused)
  const { read: readSequenceGroup, readMany: readSequenceGroups } = batchReads(
    sequenceGroupKeyText,
    (keys: readonly SequenceGroupKey[]) => store.readSequenceGroups(keys, now()),
  )
  const { read: readReservation, readMany: readReservations } = batchReads(
    tokenOf,
    store.readReservations,
    () => undefined,
  )
  const { read: readGroupOf } = batchReads(tokenOf, store.readReservationSequenceGroups, () => undefined)

  function change(
    key: SequenceGroupKey,
    operation: SequenceOperation,
    options?: SequenceCallOptions & Pick<Request, 'deadline' | 'missingRows'>,
  ): Promise<Applied> {
    const operations = [onSequenceGroup(store.rows, key, operation)]
    return groupCommit.change({ operations, mode: 'one', ...options })
  }

  async function close(kind: 'confirm' | 'release', token: string): Promise<Reservation> {
    const options = { deadline: deadline(), missingRows: 'fail' } as const
    const found = await readGroupOf({ token })
    if (!found) throw noSuchReservation()
    const applied = await change(found.group, { kind, token }, options).catch((error) => {
      // The sequence was deleted in the meantime.
      throw error instanceof MissingRow ? noSuchReservation() : error
    })
    return resultAs('reservation', applied)
  }

  return {
    read,
    readSequenceGroup,
    /** Results are in the order of the keys. */
    readMany,
    readSequenceGroups,
    list: store.list,

    listSequenceGroups: (sequence: SequenceKey, page: PageByName) =>
      store.listSequenceGroups(sequence, page, now()),

    /**
     * Issues `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat returns the first ones.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT for more than a cycle has, or if the
     *   sequence is gapless; IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async next(
      key: SequenceGroupKey,
      count: number,
      options?: SequenceCallOptions,
    ): Promise<SequenceNumbers> {
      const applied = await change(key, { kind: 'next', count }, options)
      return { key, issued: resultAs('numbers', applied), at: applied.at, isReplayed: applied.isReplayed }
    },

    /**
     * Restarts a sequence group at a number. Null or undefined: at `startValue`.
     *
     * @throws {NthError} LIMIT_REACHED, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async restart(key: SequenceGroupKey, nextValue: number | null = null, options?: SequenceCallOptions) {
      const applied = await change(key, { kind: 'restart', nextValue }, options)
      return { key, ...resultAs('restart', applied), isReplayed: applied.isReplayed }
    },

    /**
     * Reserves the first free number of a gapless sequence for some seconds. A repeat returns the first reservation in
     * its current state.
     *
     * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT if the sequence is not gapless;
     *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async reserve(key: SequenceGroupKey, ttlSeconds: number, claim?: Claim): Promise<Reservation> {
      // A reservation that will be refused must not create a sequence group.
      const isKnown = store.rows.cached(key) !== undefined
      const options = { claim, deadline: isKnown ? undefined : deadline() }
      const { definition } = isKnown ? {} : await read({ namespace: key.namespace, name: key.sequence })
      if (!isKnown && !definition?.gapless) throw notGapless()
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const operation: SequenceOperation = { kind: 'reserve', token, ttlMs: ttlSeconds * 1000 }
      const applied = await change(key, operation, options)
      const reservation = resultAs('reservation', applied)
      const present = applied.isReplayed ? await readReservation(reservation) : reservation
      if (!present)
        throw new NthError('NOT_FOUND', 'The reservation made with this idempotency key no longer exists.')
      return present
    },

    /**
     * Confirms a reserved number. A repeat returns the same result.
     *
     * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
     */
    confirm: (token: string) => close('confirm', token),
    /** Releases a reserved number. Repeats and errors as for `confirm`. */
    release: (token: string) => close('release', token),
    /** Reads a reservation in its current state; undefined: it doesn't exist. */
    reservation: (token: string) => readReservation({ token }),
    /** The same for many, in their order. */
    reservations: readReservations,
    /** The sequence group of a reservation; undefined: it doesn't exist. */
    sequenceGroupOfReservation: async (token: string) => (await readGroupOf({ token }))?.group,

    /**
     * Changes a sequence definition.
     *
     * @throws {NthError} BAD_USER_INPUT if it is invalid, or numbers could be issued that look like earlier ones;
     *   UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async define({ namespace, name }: SequenceKey, asked: SequenceDefinitionChange): Promise<SequenceState> {
      const until = deadline()
      const timeZone = asked.timeZone === null ? (await retentionIn(namespace)).timeZone : asked.timeZone
      return store.define({ namespace, name }, { ...asked, timeZone }, now(), until)
    },

    /**
     * Deletes a sequence with all its sequence groups. Later numbers start from the beginning.
     *
     * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
     */
    async delete(key: SequenceKey): Promise<SequenceState> {
      await store.delete(key)
      return unused(key)
    },
  }
}

const tokenOf = ({ token }: { token: string }) => token

/** The result of a call, of the expected kind. */
function resultAs<Kind extends SequenceResult['kind']>(kind: Kind, { results: [result] }: Applied) {
  if (!result || !('kind' in result) || result.kind !== kind) throw new Error(`No result of kind ${kind}`)
  // Its `kind` identifies it.
  return result as Extract<SequenceResult, { kind: Kind }>
}

function unused({ namespace, name }: SequenceKey): SequenceState {
  return { namespace, name, definition: undefined, createdAt: null }
}
