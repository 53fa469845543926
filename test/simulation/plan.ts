import type { ApiOperation } from '../history/history.ts'
import { mulberry32, type Random } from '../support/mulberry32.ts'
import type { TripFault } from './network.ts'

/** What happens in a run. All of it, and what is left of it when a part is taken away, can be run. */
export interface Plan {
  seed: number
  processes: number
  latencyMs: number
  timeoutMs: number
  /** Whether a session may end another: not behind some proxies. */
  mayKill: boolean
  calls: readonly PlannedCall[]
  faults: readonly PlannedFault[]
}

export interface PlannedCall {
  at: number
  process: number
  operation: ApiOperation
}

export type PlannedFault = { at: number } & (
  | ({ kind: 'trip'; process: number } & { trip: TripFault })
  /** The process runs nothing, or its network passes nothing on, for so long. */
  | { kind: 'freeze' | 'cut'; process: number; forMs: number }
  /** The process ends; its machine closes its connections, unless that has lost its power. Another process follows. */
  | { kind: 'death'; process: number; hasPower: boolean }
  /** The time of day is set. */
  | { kind: 'clock'; process: number; byMs: number }
  /** The database restarts, without its last commits. */
  | { kind: 'failover'; forMs: number; lostCommits: number }
  /** Another session locks a counter or a sequence group, or a trigger refuses its changes. */
  | { kind: 'lock' | 'trigger'; name: string; forMs: number }
)

const NAMES = ['a', 'b', 'c', 'd'] as const
/** Of the sequence groups of one sequence. */
const GROUPS = ['G', 'H'] as const
export const SEQUENCE = 's'
/** From here, some calls are out of range. */
const NEAR_END = Number.MAX_SAFE_INTEGER - 22
const KEYS = ['k1', 'k2', 'k3', 'k4', 'k5'] as const

/** The plan of a seed. */
export function planOf(seed: number): Plan {
  const random = mulberry32(seed)
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[random.below(items.length)] ?? items[0]
  // A text that arrives late can only do harm if it commits by itself, and its session still exists: rare, unless it is
  // meant. A flush with a deadline that is near commits in a text of its own.
  const isLate = random.below(4) === 0
  const isDistant = isLate || random.below(2) === 0
  const latencyMs = isDistant ? 2 + random.fraction() * 8 : 0.05 + random.fraction()
  const processes = 1 + random.below(3)
  const lengthMs = pick([200, 1000, 4000])
  const names = NAMES.slice(0, 1 + random.below(4))
  const groups = GROUPS.slice(0, random.below(GROUPS.length + 1))
  const operation = operationsOf(random, names, groups)
  const calls: PlannedCall[] = []
  const count = 5 + random.below(40)
  while (calls.length < count) {
    const [at, process] = [random.fraction() * lengthMs, random.below(processes)]
    // Together, so that they share a flush.
    const together = 1 + (random.below(2) === 0 ? 0 : random.below(8))
    for (let call = 0; call < together; call++) calls.push({ at, process, operation: operation() })
  }
  const timeoutMs = isLate ? pick([6000, 12_000]) : pick([300, 1500, 6000, 12_000])
  const faults = Array.from({ length: random.below(9) }, () => ({
    at: random.fraction() * lengthMs,
    ...(isLate ? lateness(random, processes, latencyMs) : faultOf(random, processes, [...names, ...groups])),
  }))
  return {
    seed,
    processes,
    latencyMs,
    timeoutMs,
    mayKill: !isLate && random.below(2) === 0,
    calls: calls.toSorted((a, b) => a.at - b.at),
    faults,
  }
}

function operationsOf(
  random: Random,
  names: readonly string[],
  groups: readonly string[],
): () => ApiOperation {
  const name = () => names[Math.floor(random.fraction() ** 2 * names.length)] ?? 'a'
  const delta = () => 1 + random.below(5) - (random.below(4) === 0 ? 6 : 0)
  const bound = () => (random.below(2) === 0 ? null : random.below(30))
  /** What each key was first used with. */
  const keyed = new Map<string, ApiOperation>()

  const group = () => ({ name: SEQUENCE, group: groups[random.below(groups.length)] ?? 'G' })

  function change(): ApiOperation {
    if (groups.length > 0 && random.below(3) === 0)
      return random.below(8) === 0
        ? { kind: 'restartSequence', ...group(), nextValue: 1 + random.below(30) }
        : { kind: 'nextInSequence', ...group(), count: 1 + random.below(3) }
    const kind = random.below(10)
    if (kind < 5) return { kind: 'increment', name: name() }
    if (kind < 7) return { kind: 'incrementBy', name: name(), delta: delta() }
    if (kind < 9) {
      const to = random.below(20) + (random.below(6) === 0 ? NEAR_END : 0)
      return {
        kind: 'reset',
        name: name(),
        to,
        expectedValue: random.below(3) === 0 ? random.below(6) : undefined,
      }
    }
    const changes = Array.from({ length: 1 + random.below(4) }, () => ({ name: name(), delta: delta() }))
    return { kind: 'incrementMany', changes }
  }

  return () => {
    const kind = random.below(24)
    if (kind === 0) return { kind: 'deleteCounter', name: name() }
    if (kind < 3) {
      const overflow = random.below(2) === 0 ? 'SATURATE' : 'REJECT'
      const definition = { minValue: random.below(3) === 0 ? 0 : null, maxValue: bound(), overflow } as const
      return { kind: 'defineCounter', name: name(), definition }
    }
    if (kind === 3 && groups.length > 0) return { kind: 'sequenceGroup', ...group() }
    if (kind < 6) return { kind: 'counters', names: [name()] }
    if (kind > 10) return change()
    const idempotencyKey = KEYS[random.below(KEYS.length)] ?? 'k1'
    const before = random.below(12) === 0 ? undefined : keyed.get(idempotencyKey)
    const operation = before ?? { ...change(), idempotencyKey }
    keyed.set(idempotencyKey, operation)
    return operation
  }
}

/** A commit that comes between the reading of the fence and the repetition, more or less. */
function lateness(random: Random, processes: number, latencyMs: number) {
  const delayMs = latencyMs * (4 + 16 * random.fraction())
  const trip = { kind: 'late', text: 'commit', delayMs } as const
  return { kind: 'trip' as const, process: random.below(processes), trip }
}

/** Distributes over all kinds, the loss of answers being the most frequent. */
function faultOf(random: Random, processes: number, names: readonly string[]) {
  const process = random.below(processes)
  const name = names[random.below(names.length)] ?? 'a'
  const forMs = 10 * 600 ** random.fraction()
  switch (random.below(16)) {
    case 0:
      return { kind: 'freeze' as const, process, forMs }
    case 1:
      return { kind: 'cut' as const, process, forMs }
    case 2:
      return { kind: 'death' as const, process, hasPower: random.below(2) === 0 }
    case 3:
      return { kind: 'clock' as const, process, byMs: (random.fraction() - 0.5) * 200_000_000 }
    case 4:
      return {
        kind: 'failover' as const,
        forMs,
        lostCommits: random.below(3) === 0 ? 1 + random.below(6) : 0,
      }
    case 5:
      return { kind: 'lock' as const, name, forMs }
    case 6:
      return { kind: 'trigger' as const, name, forMs }
    default: {
      const kinds = ['lost before', 'lost after', 'late', 'silent', 'conflict'] as const
      const texts = ['commit', 'commit', 'look', 'any'] as const
      const kind = kinds[random.below(kinds.length)] ?? 'lost after'
      const text = texts[random.below(texts.length)] ?? 'commit'
      return { kind: 'trip' as const, process, trip: { kind, text, delayMs: forMs / 2 } }
    }
  }
}

/**
 * A shorter plan that still fails: takes away halves, quarters and so on of its calls and faults, as long as that
 * helps.
 */
export async function shortened(plan: Plan, fails: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let shortest = plan
  for (const part of ['faults', 'calls', 'faults', 'calls'] as const)
    for (
      let size = Math.ceil(shortest[part].length / 2);
      size > 0;
      size = size === 1 ? 0 : Math.ceil(size / 2)
    )
      for (let from = 0; from < shortest[part].length; ) {
        const rest = [...shortest[part].slice(0, from), ...shortest[part].slice(from + size)]
        const shorter = { ...shortest, [part]: rest }
        if (await fails(shorter)) shortest = shorter
        else from += size
      }
  return shortest
}
