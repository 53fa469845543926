import { randomBytes } from 'node:crypto'
import type { PageByName } from '../counters/pages.ts'
import { NthError } from '../errors.ts'
import { batchReads } from '../eventLoop/batchReads.ts'
import { type Applied, onSequenceGroup, type Request } from '../groupCommit/call.ts'
import type { GroupCommit } from '../groupCommit/groupCommit.ts'
import type { Claim } from '../idempotency.ts'
import type { Rows, SequenceGroupRow } from '../rows.ts'
import { notGapless } from './apply.ts'
import { changedSequenceDefinition } from './changeDefinition.ts'
import type { SequenceDefinitionChange } from './definition.ts'
import { type SequenceNumbers, stateOf, unusedSequenceGroup } from './groups.ts'
import type { Reservation, SequenceOperation, SequenceResult } from './state.ts'
import {
  type SequenceGroupKey,
  type SequenceGroupState,
  type SequenceKey,
  type SequenceState,
  type SequenceStore,
  sequenceGroupKeyText,
  sequenceKeyText,
} from './store.ts'

/** Result of restarting a sequence group. */
export interface Restart {
  key: SequenceGroupKey
  /** The number set to come next. */
  nextValue: number
  /** `nextValue`, formatted. */
  nextFormatted: string
  /** Revision of the sequence group afterwards; undefined: not requested, or an earlier call restarted it. */
  revision: number | undefined
  isReplayed: boolean
}

/** Options of a call on a sequence group. */
export type SequenceCallOptions = Partial<Pick<Request, 'claim' | 'withRevision'>>

export interface Sequences {
  /**
   * Issues `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat returns the first ones.
   *
   * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT for more than a cycle has, or if the
   *   sequence is gapless; IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  next(key: SequenceGroupKey, count: number, options?: SequenceCallOptions): Promise<SequenceNumbers>
  /**
   * Restarts a sequence group at a number. Null or undefined: at `startValue`.
   *
   * @throws {NthError} LIMIT_REACHED, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  restart(
    key: SequenceGroupKey,
    nextValue: number | null | undefined,
    options?: SequenceCallOptions,
  ): Promise<Restart>
  /**
   * Reserves the first free number of a gapless sequence for some seconds. A repeat returns the first reservation in
   * its current state.
   *
   * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT if the sequence is not gapless;
   *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  reserve(key: SequenceGroupKey, ttlSeconds: number, claim?: Claim): Promise<Reservation>
  /**
   * Confirms a reserved number. A repeat returns the same result.
   *
   * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  confirm(token: string): Promise<Reservation>
  /** Releases a reserved number. Repeats and errors as for `confirm`. */
  release(token: string): Promise<Reservation>
  /** Reads a reservation in its current state; undefined: it doesn't exist. */
  reservation(token: string): Promise<Reservation | undefined>
  /** The sequence group of a reservation; undefined: it doesn't exist. */
  sequenceGroupOfReservation(token: string): Promise<SequenceGroupKey | undefined>
  /**
   * Changes a sequence definition.
   *
   * @throws {NthError} BAD_USER_INPUT if it is invalid, or numbers could be issued that look like earlier ones;
   *   UNAVAILABLE, OUTCOME_UNKNOWN
   */
  define(key: SequenceKey, change: SequenceDefinitionChange): Promise<SequenceState>
  /**
   * Deletes a sequence with all its sequence groups. Later numbers start from the beginning.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
   */
  delete(key: SequenceKey): Promise<SequenceState>
  read(key: SequenceKey): Promise<SequenceState>
  readSequenceGroup(key: SequenceGroupKey): Promise<SequenceGroupState>
  list(namespace: string, page: PageByName): Promise<SequenceState[]>
  listSequenceGroups(sequence: SequenceKey, page: PageByName): Promise<SequenceGroupState[]>
}

export interface SequencesOptions {
  store: SequenceStore
  groupCommit: GroupCommit
  /** Default time zone of a namespace. */
  timeZoneIn: (namespace: string) => Promise<string>
  now: () => Date
  /** Deadline of a call that arrives now, on the clock of `performance.now()`, in milliseconds. */
  deadline: () => number
}

const TOKEN_BYTES = 16

export function openSequences({
  store,
  groupCommit,
  timeZoneIn,
  now,
  deadline,
}: SequencesOptions): Sequences {
  const { read } = batchReads(sequenceKeyText, store.readSequences, unused)
  const { read: readSequenceGroup } = batchReads(sequenceGroupKeyText, async (keys) => {
    const at = now()
    const { groups, revision } = await store.readSequenceGroups(keys, at)
    const found = new Set(groups.map(sequenceGroupKeyText))
    const others = keys.filter((key) => !found.has(sequenceGroupKeyText(key)))
    return [
      ...groups.map((group) => stateOf(group, at)),
      ...others.map((key) => unusedSequenceGroup(key, revision)),
    ]
  })
  const { read: readReservation } = batchReads<{ token: string }, { token: string; found?: Reservation }>(
    ({ token }) => token,
    async (asked) => {
      const found = await store.readReservations(asked.map(({ token }) => token))
      return found.map((reservation) => ({ token: reservation.token, found: reservation }))
    },
    ({ token }) => ({ token }),
  )

  const { read: readReservationSequenceGroups } = batchReads<
    { token: string },
    { token: string; group?: SequenceGroupKey }
  >(
    ({ token }) => token,
    (asked) => store.readReservationSequenceGroups(asked.map(({ token }) => token)),
    ({ token }) => ({ token }),
  )

  function change<Name>(
    rows: Rows<Name, SequenceGroupRow>,
    name: Name,
    operation: SequenceOperation,
    options?: SequenceCallOptions & Pick<Request, 'deadline'>,
  ): Promise<Applied> {
    const operations = [onSequenceGroup(rows, name, operation)]
    return groupCommit.change({ operations, mode: 'one', missingRows: 'create', ...options })
  }

  async function close(kind: 'confirm' | 'release', token: string): Promise<Reservation> {
    return resultAs('reservation', await change(store.rowsOfReservations, token, { kind, token }))
  }

  return {
    read,
    readSequenceGroup,
    list: store.list,
    async listSequenceGroups(sequence, page) {
      const at = now()
      return (await store.listSequenceGroups(sequence, page, at)).map((group) => stateOf(group, at))
    },
    confirm: (token) => close('confirm', token),
    release: (token) => close('release', token),
    reservation: async (token) => (await readReservation({ token })).found,
    sequenceGroupOfReservation: async (token) => (await readReservationSequenceGroups({ token })).group,

    async next(key, count, options) {
      const applied = await change(store.rows, key, { kind: 'next', count }, options)
      return { key, issued: resultAs('numbers', applied), at: applied.at, isReplayed: applied.isReplayed }
    },

    async restart(key, nextValue = null, options) {
      const applied = await change(store.rows, key, { kind: 'restart', nextValue }, options)
      const { nextValue: next, nextFormatted, revision } = resultAs('restart', applied)
      return { key, nextValue: next, nextFormatted, revision, isReplayed: applied.isReplayed }
    },

    async reserve(key, ttlSeconds, claim) {
      // A reservation that will be refused must not create a sequence group.
      const isKnown = store.rows.cached(key) !== undefined
      const options = { claim, deadline: isKnown ? undefined : deadline() }
      const { definition } = isKnown ? {} : await read({ namespace: key.namespace, name: key.sequence })
      if (!isKnown && !definition?.gapless) throw notGapless()
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const operation: SequenceOperation = { kind: 'reserve', token, ttlMs: ttlSeconds * 1000 }
      const applied = await change(store.rows, key, operation, options)
      const reservation = resultAs('reservation', applied)
      const present = applied.isReplayed ? (await readReservation(reservation)).found : reservation
      if (!present)
        throw new NthError('NOT_FOUND', 'The reservation made with this idempotency key no longer exists.')
      return present
    },

    async define({ namespace, name }, asked) {
      const until = deadline()
      const timeZone = asked.timeZone === null ? await timeZoneIn(namespace) : asked.timeZone
      return store.define(
        { namespace, name },
        (history) => {
          const changed = changedSequenceDefinition(history, { ...asked, timeZone })
          if (changed instanceof NthError) throw changed
          return changed
        },
        { at: now(), deadline: until },
      )
    },

    async delete(key) {
      await store.delete(key)
      return unused(key)
    },
  }
}

/** The result of a call, of the expected kind. */
function resultAs<Kind extends SequenceResult['kind']>(
  kind: Kind,
  { results: [result] }: Applied,
): Extract<SequenceResult, { kind: Kind }> {
  // Its `kind` identifies it.
  if (result && 'kind' in result && result.kind === kind)
    return result as Extract<SequenceResult, { kind: Kind }>
  throw new Error(`No result of kind ${kind}`)
}

function unused({ namespace, name }: SequenceKey): SequenceState {
  return { namespace, name, definition: undefined, createdAt: null }
}
