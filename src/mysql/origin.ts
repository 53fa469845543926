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

/** `report`: told why everything is read again, as an operator should know it. */
export function openOrigin(report: (error: Error) => void): Origin {
  let generation = 0
  let latest: Place | undefined

  function turn(message: string): void {
    generation++
    report(new Error(`${message} All rows and definitions are read again.`))
  }

  return {
    get generation() {
      return generation
    },

    reached(place) {
      const before = latest
      latest = place
      if (!before || isSameRun(before, place)) return
      // The nodes of a cluster hold the same; each comes and goes.
      if (before.cluster !== '' && isSameDatabase(before, place)) return
      const what = isSameDatabase(before, place) ? 'The database server was restarted.' : ANOTHER_SERVER
      turn(what)
    },

    lost() {
      turn('The database lacks changes that it had committed: their numbers will be handed out again.')
    },
  }
}

const ANOTHER_SERVER =
  'The connection reached another database server. Numbers that it had not received yet will be handed out again.'
