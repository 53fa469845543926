/** What callers met while the database was in one condition, such as after one kind of fault. */
export interface Stretch {
  /** How often the condition began. */
  times: number
  answered: number
  /** Calls that were not applied, as the database could not be reached. */
  unavailable: number
  unknown: number
  /** Of these, how many calls Nth itself answered so; the others lost their connection. */
  unknownToNth: number
  /** Calls whose answer took more than a second. */
  slow: number
  /** The longest time that a caller waited for its answer, including what it sent again. */
  longestMs: number
}

/** Records of all callers how long they waited, and what was wrong. */
export interface Journal {
  stretches: ReadonlyMap<string, Stretch>
  /** How many answers there were. */
  readonly answered: number
  /** What should not have been answered. */
  wrong: string[]
  /** Calls that end from now on belong to this condition. */
  begin(condition: string): void
  note(kind: 'answered' | 'unavailable' | 'unknown' | 'unknownToNth', waitMs: number): void
}

export const NO_FAULT = 'no fault'
const SLOW_MS = 1000

const EMPTY: Stretch = {
  times: 0,
  answered: 0,
  unavailable: 0,
  unknown: 0,
  unknownToNth: 0,
  slow: 0,
  longestMs: 0,
}

export function createJournal(): Journal {
  const stretches = new Map<string, Stretch>()
  let answered = 0
  let current: Stretch

  function begin(condition: string): void {
    current = stretches.get(condition) ?? { ...EMPTY }
    current.times++
    stretches.set(condition, current)
  }

  begin(NO_FAULT)
  return {
    stretches,
    wrong: [],
    begin,
    get answered() {
      return answered
    },
    note(kind, waitMs) {
      current[kind]++
      if (kind === 'unknownToNth') current.unknown++
      if (waitMs > SLOW_MS) current.slow++
      current.longestMs = Math.max(current.longestMs, waitMs)
      if (kind === 'answered') answered++
    },
  }
}
