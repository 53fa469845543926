import { isSameDatabase, isSameRun, type Place } from './place.ts'

/**
 * Which database the writers reach. After a failover or a restore that lost transactions, a server gives the ids of
 * lost rows to other rows: so nothing that was read before may be used from then on.
 *
 * The rule that always holds: a flush uses only rows that were read in the present generation.
 */
export interface Origin {
  /** Rises whenever everything that was read before is to be read again. */
  readonly generation: number
  /** Notes where a writer's new session is. */
  reached(place: Place): void
  /** Notes that the database lacks what a writer has committed. */
  lost(): void
}

/** `report`: told of what has been lost, or may have been, as an operator should know it. */
export function openOrigin(report: (error: Error) => void): Origin {
  let generation = 0
  let latest: Place | undefined

  function turn(loss?: string): void {
    generation++
    if (loss) report(new Error(`${loss} All rows and definitions are read again.`))
  }

  return {
    get generation() {
      return generation
    },

    reached(place) {
      const before = latest
      latest = place
      if (!before || isSameRun(before, place)) return
      // That a server has lost something on its way through a restart, the writers' own rows tell.
      if (!isSameDatabase(before, place)) turn(ANOTHER_SERVER)
      // The nodes of a cluster hold the same; each comes and goes.
      else if (before.cluster === '') turn()
    },

    lost() {
      turn('The database lacks changes that it had committed: their numbers will be handed out again.')
    },
  }
}

const ANOTHER_SERVER =
  'The connection reached another database server. Numbers that it had not received yet will be handed out again.'
