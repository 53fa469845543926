import type { Nth } from '../../../src/repository/nth.ts'

/** Holds up increments until it is opened. */
export interface Gate {
  around(nth: Nth): Nth
  open(): void
  /** How many increments have been begun. */
  begun(): number
  /** Waits until so many have been begun. */
  reached(count: number): Promise<void>
}

export function createGate(): Gate {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  let begun = 0
  const waiters = new Set<() => void>()
  return {
    around: ({ counters, ...others }) => ({
      ...others,
      counters: {
        ...counters,
        async incrementBy(...call) {
          begun += 1
          for (const notify of waiters) notify()
          await opened
          return counters.incrementBy(...call)
        },
      },
    }),
    open: () => open(),
    begun: () => begun,
    reached: (count) =>
      new Promise((resolve) => {
        const look = () => begun >= count && resolve()
        waiters.add(look)
        look()
      }),
  }
}
