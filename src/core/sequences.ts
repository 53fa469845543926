import { randomBytes } from 'node:crypto'
import { notGapless } from './applyToSequence.ts'
import type { Applied, Request } from './calls.ts'
import { NthError } from './errors.ts'
import { writerOf } from './format.ts'
import { gather } from './gather.ts'
import type { GroupCommit } from './groupCommit.ts'
import type { Claim } from './idempotency.ts'
import type { PageByName } from './listing.ts'
import type { GroupOperation, IssuedNumbers, Reservation, SequenceResult } from './numberState.ts'
import { nextNumber } from './numbers.ts'
import {
  changedSequenceDefinition,
  defaultSequenceDefinition,
  type SequenceDefinitionChange,
} from './sequenceDefinition.ts'
import {
  type GroupKey,
  type GroupState,
  groupKeyText,
  type SequenceKey,
  type SequenceState,
  type SequenceStore,
  type StoredGroup,
  sequenceKeyText,
} from './sequenceStore.ts'
import type { Row, Rows } from './writer.ts'

/** Numbers that belong to one caller. */
export interface SequenceNumbers {
  key: GroupKey
  issued: IssuedNumbers
  at: Date
  /** Whether an earlier call with the same idempotency key took them. */
  isReplayed: boolean
}

/** What a group was told. */
export interface Restart {
  key: GroupKey
  /** The number that was to come next. */
  nextValue: number
  /** The same as text. */
  nextFormatted: string
  /** Of the group since then; undefined: it wasn't asked, or an earlier call did it. */
  revision: number | undefined
  isReplayed: boolean
}

/** What a caller wants beside numbers. */
export type GroupCallOptions = Partial<Pick<Request, 'claim' | 'withRevision'>>

export interface Sequences {
  /**
   * Takes `count` numbers (1 to 1 000 000) that no other caller gets. With a claim, a repeat gets the first ones again.
   *
   * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT for more than a cycle has, and where numbers
   *   are reserved; IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  next(key: GroupKey, count: number, options?: GroupCallOptions): Promise<SequenceNumbers>
  /**
   * Says which number comes next. Undefined: the first one.
   *
   * @throws {NthError} LIMIT_REACHED, IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  restart(key: GroupKey, nextValue: number | null | undefined, options?: GroupCallOptions): Promise<Restart>
  /**
   * Holds the lowest free number of a gapless sequence for some seconds. A repeat is told of the first reservation as
   * it stands then.
   *
   * @throws {NthError} SEQUENCE_EXHAUSTED, OUT_OF_RANGE; BAD_USER_INPUT where numbers are taken;
   *   IDEMPOTENCY_KEY_REUSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  reserve(key: GroupKey, ttlSeconds: number, claim?: Claim): Promise<Reservation>
  /**
   * Makes a reserved number final. Once more is answered as at first.
   *
   * @throws {NthError} NOT_FOUND, RESERVATION_CLOSED, UNAVAILABLE, OUTCOME_UNKNOWN
   */
  confirm(token: string): Promise<Reservation>
  /** Gives a reserved number back. Throws the same. */
  release(token: string): Promise<Reservation>
  /** A reservation as it stands; undefined: there is none. */
  reservation(token: string): Promise<Reservation | undefined>
  /** The group that a reservation is of; undefined: there is none. */
  groupOfReservation(token: string): Promise<GroupKey | undefined>
  /**
   * Changes what a sequence is.
   *
   * @throws {NthError} BAD_USER_INPUT if that makes no sense, or numbers could be issued that look like earlier ones;
   *   UNAVAILABLE, OUTCOME_UNKNOWN
   */
  define(key: SequenceKey, change: SequenceDefinitionChange): Promise<SequenceState>
  /**
   * Forgets a sequence with all its groups: its numbers begin again.
   *
   * @throws {NthError} UNAVAILABLE, OUTCOME_UNKNOWN
   */
  delete(key: SequenceKey): Promise<SequenceState>
  read(key: SequenceKey): Promise<SequenceState>
  readGroup(key: GroupKey): Promise<GroupState>
  list(namespace: string, page: PageByName): Promise<SequenceState[]>
  listGroups(sequence: SequenceKey, page: PageByName): Promise<GroupState[]>
}

export interface SequencesOptions<R extends Row> {
  store: SequenceStore<R>
  groupCommit: GroupCommit<R>
  /** The time zone of what comes into being in a namespace. */
  timeZoneIn: (namespace: string) => Promise<string>
  now: () => Date
  /** Until when a call may take that comes now, on the clock of `performance.now()`. */
  deadline: () => number
}

const TOKEN_BYTES = 16

export function openSequences<R extends Row>({
  store,
  groupCommit,
  timeZoneIn,
  now,
  deadline,
}: SequencesOptions<R>): Sequences {
  const { read } = gather(sequenceKeyText, store.readSequences, unused)
  const { read: readGroup } = gather(groupKeyText, async (keys) => {
    const at = now()
    const { groups, revision } = await store.readGroups(keys, at)
    const found = new Set(groups.map(groupKeyText))
    const others = keys.filter((key) => !found.has(groupKeyText(key)))
    return [...groups.map((group) => stateOf(group, at)), ...others.map((key) => unusedGroup(key, revision))]
  })
  const { read: readReservation } = gather<{ token: string }, { token: string; found?: Reservation }>(
    ({ token }) => token,
    async (asked) => {
      const found = await store.readReservations(asked.map(({ token }) => token))
      return found.map((reservation) => ({ token: reservation.token, found: reservation }))
    },
    ({ token }) => ({ token }),
  )

  const { read: readReservationGroup } = gather<{ token: string }, { token: string; group?: GroupKey }>(
    ({ token }) => token,
    (asked) => store.readReservationGroups(asked.map(({ token }) => token)),
    ({ token }) => ({ token }),
  )

  function change<Key>(
    rows: Rows<Key, R>,
    key: Key,
    operation: GroupOperation,
    options: GroupCallOptions & Pick<Request, 'deadline'> = {},
  ) {
    const request: Request = {
      operations: [operation],
      mode: 'one',
      claim: undefined,
      wantsPeriodValues: false,
      ...options,
    }
    return groupCommit.change(rows, [key], request)
  }

  async function close(kind: 'confirm' | 'release', token: string): Promise<Reservation> {
    return resultAs('reservation', await change(store.rowsOfReservations, token, { kind, token }))
  }

  return {
    read,
    readGroup,
    list: store.list,
    async listGroups(sequence, page) {
      const at = now()
      return (await store.listGroups(sequence, page, at)).map((group) => stateOf(group, at))
    },
    confirm: (token) => close('confirm', token),
    release: (token) => close('release', token),
    reservation: async (token) => (await readReservation({ token })).found,
    groupOfReservation: async (token) => (await readReservationGroup({ token })).group,

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
      // What is refused anyhow is not to make a group.
      const isKnown = store.rows.known(key) !== undefined
      const options = { claim, deadline: isKnown ? undefined : deadline() }
      const { definition } = isKnown ? {} : await read({ namespace: key.namespace, name: key.sequence })
      if (!isKnown && !definition?.gapless) throw notGapless()
      const token = randomBytes(TOKEN_BYTES).toString('hex')
      const operation: GroupOperation = { kind: 'reserve', token, ttlMs: ttlSeconds * 1000 }
      const applied = await change(store.rows, key, operation, options)
      const reservation = resultAs('reservation', applied)
      const present = applied.isReplayed ? (await readReservation(reservation)).found : reservation
      if (!present)
        throw new NthError('NOT_FOUND', 'The reservation that was made with this key is no longer known.')
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

/** A group as a call has left it that took numbers. */
export function groupAfter(
  numbers: SequenceNumbers,
): Omit<GroupState, 'revision'> & Partial<Pick<GroupState, 'revision'>> {
  const { key, at } = numbers
  const { lastValue, nextValue, revision } = numbers.issued
  const write = writerFor(numbers)
  const nextFormatted = nextValue === null ? null : write(nextValue)
  const after = {
    ...key,
    lastValue,
    lastFormatted: write(lastValue),
    nextValue,
    nextFormatted,
    updatedAt: at,
  }
  return revision === undefined ? after : { ...after, revision }
}

/** Makes the function that writes the numbers of a block. */
export function writerFor({ key, issued, at }: SequenceNumbers): (value: number) => string {
  return writerOf(issued, key.group, at)
}

function stateOf(stored: StoredGroup, at: Date): GroupState {
  const { namespace, sequence, group, definition, latest, position, free, revision } = stored
  const nextValue = free ?? nextNumber(definition, position)
  return {
    namespace,
    sequence,
    group,
    lastValue: latest?.value ?? null,
    lastFormatted: latest ? writerOf(latest, group, latest.at)(latest.value) : null,
    nextValue,
    nextFormatted: nextValue === null ? null : writerOf(definition, group, at)(nextValue),
    updatedAt: latest?.at ?? null,
    revision,
  }
}

/** What an operation did, which says what it is. */
function resultAs<Kind extends SequenceResult['kind']>(
  kind: Kind,
  { answers: [answer] }: Applied,
): Extract<SequenceResult, { kind: Kind }> {
  // That of its kind, as it says.
  if (answer && 'kind' in answer && answer.kind === kind)
    return answer as Extract<SequenceResult, { kind: Kind }>
  throw new Error(`There is no answer that says what was done: ${kind}`)
}

function unused({ namespace, name }: SequenceKey): SequenceState {
  return { namespace, name, definition: undefined, createdAt: null }
}

function unusedGroup({ namespace, sequence, group }: GroupKey, revision: number): GroupState {
  const definition = defaultSequenceDefinition('UTC')
  const nextValue = definition.startValue
  return {
    namespace,
    sequence,
    group,
    lastValue: null,
    lastFormatted: null,
    nextValue,
    // The default format has no date.
    nextFormatted: writerOf(definition, group, new Date(0))(nextValue),
    updatedAt: null,
    revision,
  }
}
