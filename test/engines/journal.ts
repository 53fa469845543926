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

export type Journal = ReturnType<typeof createJournal>

/** Records of all callers how long they waited, and what was wrong. */
export function createJournal() {
  const stretches = new Map<string, Stretch>()
  let answered = 0
  let current: Stretch

  /** Calls that end from now on belong to this condition. */
  function begin(condition: string): void {
    current = stretches.get(condition) ?? { ...EMPTY }
    current.times++
    stretches.set(condition, current)
  }

  begin(NO_FAULT)
  return {
    // By condition.
    stretches,
    /** What should not have been answered. */
    wrong: [] as string[],
    begin,
    /** How many answers there were. */
    get answered() {
      return answered
    },
    note(kind: 'answered' | 'unavailable' | 'unknown' | 'unknownToNth', waitMs: number) {
      current[kind]++
      if (kind === 'unknownToNth') current.unknown++
      if (waitMs > SLOW_MS) current.slow++
      current.longestMs = Math.max(current.longestMs, waitMs)
      if (kind === 'answered') answered++
    },
  }
}
