import type { Retention } from '../counters/definition.ts'
import { calendarOf, type Period } from '../time/calendar.ts'
import type { Watched } from './topics.ts'

export type Turns = ReturnType<typeof createTurns>

/**
 * Finds counters in which a period has ended: their current total and their history differ then, though nobody changed
 * them.
 *
 * @param periods whose ends matter
 */
export function createTurns(
  periods: readonly Period[],
  retentionIn: (namespace: string) => Promise<Retention>,
) {
  const ends = new Map<Watched, { timeZone: string; at: number }>()
  let firstEnd = Number.POSITIVE_INFINITY

  function note(watched: Watched, timeZone: string, now: number): void {
    const at = Math.min(...periods.map((period) => calendarOf(timeZone).bucketAt(period, now).end))
    ends.set(watched, { timeZone, at })
    firstEnd = Math.min(firstEnd, at)
  }

  return {
    /** Notes in which time zone counters have their periods. */
    async follow(all: Iterable<Watched>, now: number): Promise<void> {
      if (periods.length === 0) return
      for (const watched of all) {
        const { topic, state } = watched
        if (topic.kind !== 'counter' || !state || state instanceof Error) continue
        const definition = 'definition' in state ? state.definition : undefined
        const { timeZone } = definition ?? (await retentionIn(topic.key.namespace))
        note(watched, timeZone, now)
      }
    },

    /** Returns those with a period that has ended since the last call. */
    takeEnded(now: number): Watched[] {
      if (now < firstEnd) return []
      const ended = [...ends].filter(([, { at }]) => at <= now)
      for (const [watched, { timeZone }] of ended) note(watched, timeZone, now)
      firstEnd = Math.min(...[...ends.values()].map(({ at }) => at))
      return ended.map(([watched]) => watched)
    },
  }
}
