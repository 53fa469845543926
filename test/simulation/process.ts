import type { Writer } from '../../src/commit/batch.ts'
import type { Fence } from '../../src/commit/fence.ts'
import { openGroupCommit } from '../../src/commit/groupCommit.ts'
import { openWriter } from '../../src/commit/transaction.ts'
import { createFailoverDetector } from '../../src/mysql/health.ts'
import { Hosts } from '../../src/mysql/hosts.ts'
import type { Database, Work } from '../../src/mysql/pool.ts'
import type { PooledConnection } from '../../src/mysql/pooledConnection.ts'
import { JOINED } from '../../src/mysql/slots.ts'
import { type Notices, SILENT } from '../../src/operations/log.ts'
import { createRowCache } from '../../src/repository/batches.ts'
import { type CounterChange, openCounters } from '../../src/repository/counters.ts'
import { openSequences } from '../../src/repository/sequences.ts'
import { type CounterKey, keyText } from '../../src/rules/counter.ts'
import { NthError, unavailable } from '../../src/rules/errors.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import type { CounterRow, SequenceGroupRow } from '../../src/rules/rows.ts'
import { type SequenceGroupKey, sequenceGroupKeyText } from '../../src/rules/sequence.ts'
import { defaultSequenceDefinition } from '../../src/rules/sequenceDefinition.ts'
import type { Owner } from '../../src/rules/turns.ts'
import type { Answer, ApiOperation, CallOutcome } from '../history/history.ts'
import { PLAIN } from '../support/model/plain.ts'
import { ServerError, type ServerSession, type SimulatedServer } from './database.ts'
import { type NetworkOptions, sessionsOf, type TripFault } from './network.ts'
import { Machine } from './scheduler.ts'

const NAMESPACE = 'n'
const DUP_ENTRY = 1062
/** The noon of a day. */
const NOON = Date.UTC(2026, 10, 26, 12)
/** As in `openNth`. */
const [IDLE_LIMIT_S, TRIP_LIMIT_MS] = [3, 4000]

/** What can be broken without code in `src`, to see that it is found. */
export interface Breakage extends Pick<NetworkOptions, 'breakStatement'> {
  breakWriter?: ((writer: Writer) => Writer) | undefined
}

export interface ProcessOptions extends Pick<NetworkOptions, 'server' | 'latencyMs'>, Breakage {
  timeoutMs: number
  /** What the database lacks, as processes note it there. */
  losses: { id: number; what: string; isAccepted: boolean }[]
  /** Gets what an operator would hear of. */
  onFault: (error: unknown) => void
}

export type NthProcess = ReturnType<typeof openProcess>

/** A process of Nth, from the counters of its repository down to the sessions of its writers, on a simulated machine. */
export function openProcess(options: ProcessOptions) {
  const { server, latencyMs, timeoutMs, losses, onFault, breakWriter = (writer) => writer } = options
  const { scheduler, random } = server
  const machine = new Machine()
  const faults: TripFault[] = []
  const notices: Notices = { ...SILENT, fault: onFault }
  const clock = scheduler.clockOf(machine)
  const now = () => new Date(NOON + scheduler.nowMs + machine.clockErrorMs)
  const fences = new Set<Fence>()
  const failover = createFailoverDetector(notices)
  const hosts = new Hosts([{ database: 'simulated' }])
  const openSession = sessionsOf({ ...options, machine, faults })

  const database = {
    deadline: () => scheduler.nowMs + timeoutMs,
    /** As `Database` does: tries until the deadline. */
    async withRetry<T>(_owner: Owner, work: Work<T>): Promise<T> {
      const deadline = scheduler.nowMs + timeoutMs
      for (let cause: unknown; ; await clock.pause(random.fraction() * 100)) {
        if (scheduler.nowMs > deadline) throw unavailable('The database is unreachable.', cause)
        try {
          failover.assertWhole()
          await clock.pause(latencyMs * (0.5 + random.fraction()))
          if (server.isDown || machine.cutUntil > scheduler.nowMs) continue
          // What the work reads and creates, it does on the server itself.
          const connection = {
            select: async () => [],
            inTransaction: (create: () => Promise<void>) => create(),
          } as unknown as PooledConnection
          const result = await work(connection)
          await clock.pause(latencyMs * (0.5 + random.fraction()))
          return result
        } catch (error) {
          if (error instanceof NthError) throw error
          cause = error
        }
      }
    },
    // Nothing else of it is used.
  } as unknown as Database

  /** Creates what has names, in one transaction. `write` stores the rows of one. */
  async function create(
    table: string,
    names: readonly string[],
    write: (session: ServerSession, id: number, name: string) => void,
  ): Promise<void> {
    const session = server.open(machine)
    session.isInTransaction = true
    try {
      for (const name of names) {
        await session.lock(`${table} ${name}`)
        if (session.read(`${table} ${name}`)) throw new ServerError(DUP_ENTRY)
        const id = ++server.ids
        session.write(`${table} ${name}`, { id })
        write(session, id, name)
      }
      session.commit()
    } finally {
      session.end()
    }
  }

  const rows = createRowCache<CounterKey, CounterRow>(database, failover, {
    textOf: keyText,
    read: async (_, keys, incarnation) =>
      new Map(keys.flatMap((key) => readRow(server, key, incarnation) ?? [])),
    create: (_, keys) =>
      create(
        'name',
        keys.map(({ name }) => name),
        (session, id, name) => {
          const version = 1 + random.below(1_000_000)
          session.write(`definition ${id}`, { name, version, minValue: null, maxValue: null, saturates: 0 })
          session.write(`counter ${id}`, { version, value: 0 })
        },
      ),
  })
  const groups = createRowCache<SequenceGroupKey, SequenceGroupRow>(database, failover, {
    textOf: sequenceGroupKeyText,
    read: async (_, keys, incarnation) =>
      new Map(keys.flatMap((key) => readGroup(server, key, incarnation) ?? [])),
    create: (_, keys) =>
      create(
        'groupName',
        keys.map(({ group }) => group),
        (session, id, name) => session.write(`group ${id}`, { name, identity: 1 + random.below(1_000_000) }),
      ),
  })
  const groupCommit = openGroupCommit({
    openWriter: () =>
      breakWriter(
        openWriter(hosts, {
          clock,
          fences,
          openSession,
          failover,
          timeLimitMs: TRIP_LIMIT_MS,
          idleLimitS: IDLE_LIMIT_S,
          onChanged: () => undefined,
        }),
      ),
    timeoutMs,
    maxPending: 1000,
    keyTtlMs: 3_600_000,
    clock,
    now,
    random: random.fraction,
    notices,
    onApplied: () => undefined,
  })
  const counters = openCounters({ database, rows, groupCommit, now, retentionIn: async () => PLAIN })
  const sequences = openSequences({
    ...{ database, definitions: database, rows: groups, groupCommit, now },
    retentionIn: async () => PLAIN,
  })
  // As `openLossWatch` does.
  clock.repeat(1000, () => {
    const own = failover.unnoted
    if (server.isDown) return
    if (own && !losses.some(({ id }) => id === own.id)) losses.push({ ...own, isAccepted: false })
    failover.learn(losses, own)
  })

  async function answerOf(operation: ApiOperation): Promise<Answer | Answer[]> {
    const { kind } = operation
    const key = { namespace: NAMESPACE, name: 'name' in operation ? operation.name : '' }
    const idempotencyKey = 'idempotencyKey' in operation ? operation.idempotencyKey : undefined
    const claim = idempotencyKey ? claimOf(NAMESPACE, idempotencyKey, [operation]) : undefined
    switch (kind) {
      case 'increment':
        return answered(await counters.incrementBy(key, 1, { claim }))
      case 'incrementBy':
        return answered(await counters.incrementBy(key, operation.delta, { claim }))
      case 'incrementMany':
        return (await counters.incrementMany(NAMESPACE, operation.changes, { claim })).map(answered)
      case 'reset':
        return answered(
          await counters.reset(key, operation.to ?? 0, { claim }, { value: operation.expectedValue }),
        )
      case 'defineCounter':
        return { value: (await counters.define(key, boundsOf(operation))).value }
      case 'deleteCounter':
        return { previousValue: (await counters.delete(key)).previousValue }
      case 'counters':
        return database.withRetry(JOINED, async () => operation.names.map((name) => stateOf(server, name)))
      case 'nextInSequence': {
        const { issued, isReplayed: replayed } = await sequences.next(
          groupOf(operation),
          operation.count ?? 1,
          {
            claim,
          },
        )
        return { value: issued.value, lastValue: issued.lastValue, replayed }
      }
      case 'restartSequence': {
        const { nextValue, isReplayed } = await sequences.restart(groupOf(operation), operation.nextValue, {
          claim,
        })
        return { nextValue, replayed: isReplayed }
      }
      case 'sequenceGroup':
        return database.withRetry(JOINED, async () => groupState(server, operation.group ?? ''))
      default:
        throw new Error(`The simulation has no ${kind}`)
    }
  }

  return {
    machine,
    /** Those of its next texts. */
    faults,
    /** Why it uses the database no longer. */
    obstacle: () => failover.obstacle,

    /** Executes an operation as the API does. */
    async call(operation: ApiOperation): Promise<CallOutcome> {
      try {
        return { kind: 'answered', answer: await answerOf(operation) }
      } catch (error) {
        if (!(error instanceof NthError)) onFault(error)
        if (!(error instanceof NthError) || error.code === 'OUTCOME_UNKNOWN') return { kind: 'unknown' }
        const { limit, value, index } = error.details
        return { kind: 'refused', code: error.code, limit, value, index }
      }
    },
  }
}

function answered({ value, previousValue, appliedDelta, isReplayed: replayed }: CounterChange): Answer {
  return { value, previousValue, appliedDelta, replayed }
}

function readRow(server: SimulatedServer, key: CounterKey, incarnation: number) {
  const id = Number(server.committed(`name ${key.name}`)?.id)
  const definition = server.committed(`definition ${id}`)
  if (!definition) return undefined
  const version = Number(definition.version)
  const { minValue, maxValue, overflow } = boundsIn(definition)
  const row: CounterRow = {
    kind: 'counter',
    id,
    namespaceId: 1,
    version,
    incarnation,
    definition: { ...PLAIN, minValue, maxValue, overflow },
    salt: undefined,
    forgottenSecond: 0,
    changedAt: Number.NEGATIVE_INFINITY,
  }
  return [[keyText(key), row] as const]
}

function groupOf({ name, group = '' }: { name: string; group?: string | undefined }): SequenceGroupKey {
  return { namespace: NAMESPACE, sequence: name, group }
}

function readGroup(server: SimulatedServer, key: SequenceGroupKey, incarnation: number) {
  const id = Number(server.committed(`groupName ${key.group}`)?.id)
  const group = server.committed(`group ${id}`)
  if (!group) return undefined
  const row: SequenceGroupRow = {
    kind: 'sequenceGroup',
    id,
    version: 1,
    incarnation,
    sequenceId: 1,
    identity: Number(group.identity),
    group: key.group,
    definition: defaultSequenceDefinition('UTC'),
    salt: undefined,
    issuedIn: undefined,
  }
  return [[sequenceGroupKeyText(key), row] as const]
}

/** A sequence group as a read returns it. */
function groupState(server: SimulatedServer, group: string): Answer {
  const id = Number(server.committed(`groupName ${group}`)?.id)
  // As rows have it.
  const { value = null, next = null } = (server.committed(`position ${id}`) ?? {}) as Record<
    'value' | 'next',
    number | null
  >
  return { lastValue: value, nextValue: next ?? (value ?? 0) + 1 }
}

/** A counter as a read returns it. */
export function stateOf(server: SimulatedServer, name: string): Answer {
  const id = Number(server.committed(`name ${name}`)?.id)
  const value = Number(server.committed(`counter ${id}`)?.value ?? 0)
  return { value, ...boundsIn(server.committed(`definition ${id}`) ?? {}) }
}

function boundsIn({ minValue = null, maxValue = null, saturates }: Record<string, unknown>) {
  // As `counter` rows have them.
  const bounds = { minValue, maxValue } as Record<'minValue' | 'maxValue', number | null>
  return { ...bounds, overflow: saturates ? ('SATURATE' as const) : ('REJECT' as const) }
}

function boundsOf({ definition }: Extract<ApiOperation, { kind: 'defineCounter' }>) {
  const { minValue, maxValue, overflow } = definition
  return { minValue, maxValue, overflow }
}
