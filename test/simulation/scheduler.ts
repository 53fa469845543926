import type { Clock } from '../../src/commit/clock.ts'

/** The order in which Node's event loop runs what is due: its timers, what sockets have received, the end of the tick. */
const PHASES = { timer: 0, socket: 1, tick: 2 }

interface ScheduledEvent {
  at: number
  phase: number
  /** When it was due before its machine froze, then in which order events were scheduled. */
  due: number
  order: number
  machine: Machine | undefined
  work: () => void
  isCancelled: boolean
}

/** A machine with one process of Nth. While it is frozen it runs nothing; what becomes due meanwhile runs afterwards. */
export class Machine {
  isDead = false
  frozenUntil = 0
  /** Its network passes nothing on until then. */
  cutUntil = 0
  /** How far its time of day is off. */
  clockErrorMs = 0
  /** When the database had lost commits that its process knew of. */
  lostAt = Number.POSITIVE_INFINITY
}

/**
 * Simulated time. Events run one after another in the order of their instants, each with all the promise jobs that follow
 * from it: as nothing else schedules, a run is a function of its seed.
 */
export class Scheduler {
  nowMs = 0
  events = 0
  /** The next one last. */
  readonly #queue: ScheduledEvent[] = []
  #scheduled = 0

  /** Runs work after a delay, on a machine or outside of all. Returns what cancels it. */
  after(delayMs: number, work: () => void, machine?: Machine, phase: keyof typeof PHASES = 'socket') {
    const at = this.nowMs + Math.max(0, delayMs)
    const order = this.#scheduled++
    const event = { at, phase: PHASES[phase], due: at, order, machine, work, isCancelled: false }
    this.#insert(event)
    return () => {
      event.isCancelled = true
    }
  }

  pause(delayMs: number, machine?: Machine): Promise<void> {
    return new Promise((resolve) => this.after(delayMs, resolve, machine, 'timer'))
  }

  /** Runs all events until an instant, or earlier until all is done. */
  runUntil(endMs: number, isDone: () => boolean = () => false): Promise<void> {
    return new Promise((resolve, reject) => {
      const step = () => {
        const event = isDone() ? undefined : this.#next(endMs)
        if (!event) return resolve()
        this.events += 1
        try {
          event.work()
        } catch (error) {
          return reject(error)
        }
        // Of Node, not of the simulation: before the next event all promise jobs run, and what the row cache puts off to the
        // end of the tick.
        setImmediate(() => setImmediate(step))
      }
      setImmediate(step)
    })
  }

  clockOf(machine: Machine): Clock {
    return {
      elapsedMs: () => this.nowMs,
      pause: (delayMs) => this.pause(delayMs, machine),
      endOfTick: () => new Promise((resolve) => this.after(0, resolve, machine, 'tick')),
      afterSockets: (delayMs, work) => {
        let isCancelled = false
        const run = () => {
          if (!isCancelled) this.after(0, work, machine, 'tick')
        }
        this.after(delayMs, run, machine, 'timer')
        return () => {
          isCancelled = true
        }
      },
      repeat: (everyMs, work) => {
        let isEnded = false
        const run = () => {
          if (isEnded) return
          work()
          this.after(everyMs, run, machine, 'timer')
        }
        this.after(everyMs, run, machine, 'timer')
        return () => {
          isEnded = true
        }
      },
    }
  }

  #next(endMs: number): ScheduledEvent | undefined {
    for (let event = this.#queue.at(-1); event && event.at <= endMs; event = this.#queue.at(-1)) {
      this.#queue.pop()
      const { machine } = event
      if (event.isCancelled || machine?.isDead) continue
      this.nowMs = event.at
      if (!machine || machine.frozenUntil <= event.at) return event
      event.at = machine.frozenUntil
      this.#insert(event)
    }
    return undefined
  }

  #insert(event: ScheduledEvent): void {
    let [low, high] = [0, this.#queue.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const other = this.#queue[middle]
      if (other && isBefore(event, other)) low = middle + 1
      else high = middle
    }
    this.#queue.splice(low, 0, event)
  }
}

function isBefore(a: ScheduledEvent, b: ScheduledEvent): boolean {
  return (a.at - b.at || a.phase - b.phase || a.due - b.due || a.order - b.order) < 0
}
