import { errorOf, NthError } from '../errors.ts'
import type { Notices } from '../notices.ts'
import { isChanged, isOlder, type Topic, type TopicState, type Watched } from './topics.ts'

export interface ReadOptions {
  /** Reads topics of one kind; undefined where there is none. */
  read: {
    [Kind in Topic['kind']]: (keys: readonly KeyOf<Kind>[]) => Promise<readonly (TopicState | undefined)[]>
  }
  notices: Notices
}

type KeyOf<Kind> = Extract<Topic, { kind: Kind }>['key']

/** Maximum keys of one read. */
const BATCH = 1000

/**
 * Creates a function that reads the states of topics.
 *
 * @param onChanged called with each whose state, read before, has changed
 */
export function createReading<Entry extends Watched>(
  { read, notices }: ReadOptions,
  onChanged: (entry: Entry) => void,
) {
  async function readSome<Kind extends Topic['kind']>(kind: Kind, some: readonly Entry[]): Promise<void> {
    try {
      // They were selected by their kind.
      const states = await read[kind](some.map(({ topic }) => topic.key as KeyOf<Kind>))
      for (const [index, entry] of some.entries()) update(entry, states[index] ?? null)
    } catch (error) {
      if (error instanceof NthError) throw error
      // One that can't be read doesn't stop the others.
      if (some.length > 1) for (const entry of some) await readSome(kind, [entry])
      for (const entry of some.length === 1 ? some : []) {
        if (!(entry.state instanceof Error)) notices.fault(error)
        entry.state = errorOf(error)
      }
    }
  }

  function update(entry: Entry, state: TopicState | null): void {
    const before = entry.state
    const isState = before != null && !(before instanceof Error)
    if (isState && state && (isOlder(state, before) || !isChanged(before, state))) return
    if (before === state) return
    entry.state = state
    if (before !== undefined) onChanged(entry)
  }

  /** @throws {NthError} UNAVAILABLE */
  return async (due: readonly Entry[]): Promise<void> => {
    for (const kind of ['counter', 'sequenceGroup', 'reservation'] as const) {
      const same = due.filter(({ topic }) => topic.kind === kind)
      for (let start = 0; start < same.length; start += BATCH)
        await readSome(kind, same.slice(start, start + BATCH))
    }
  }
}
