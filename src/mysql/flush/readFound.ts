import type { FlushBody, Found } from '../../core/groupCommit/writer.ts'
import type { Answer, Session } from '../connections/session.ts'
import { readAgain } from './lockAndRead.ts'
import type { Finds, FlushText } from './steps.ts'
import type { StoredRow } from './storedRow.ts'

export interface FlushFound extends Pick<Finds, 'first'> {
  /** Undefined: an idempotency key was neither claimed nor found. */
  found: Found | undefined
  /** Whether a trigger hid a value from its answer. */
  isKeptBack: boolean
}

/** Reads the answers of a flush's first round trip, and queries the values that they don't contain. */
export async function readFound(
  session: Session,
  text: FlushText,
  answers: readonly Answer[],
  { counters, groups, claims }: FlushBody<StoredRow>,
): Promise<FlushFound> {
  const finds: Finds = {
    before: counters.map(() => undefined),
    periodTotals: counters.map(() => undefined),
    revisions: counters.map(() => undefined),
    first: undefined,
    positions: groups.map(() => undefined),
    earlier: [],
    claimed: 0,
  }
  text.read(answers, finds)
  const { before, periodTotals, revisions, first, positions, earlier, claimed } = finds
  if (claimed + earlier.length !== claims.length) return { found: undefined, first, isKeptBack: false }
  let isKeptBack = false
  const again = readAgain(counters, finds)
  if (again.statements.length > 0) {
    const unsure = before.flatMap((value, index) => (value === 'unsure' ? [index] : []))
    again.read(await session.send(again.statements), finds)
    // A value of 0 gives the same answer as a hidden one.
    isKeptBack = unsure.some((index) => before[index] !== 0)
  }
  const values = before.map((value) => (value === 'unsure' ? undefined : value))
  return { found: { values, periodTotals, revisions, positions, earlier }, first, isKeptBack }
}
