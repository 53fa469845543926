import { setTimeout as pause } from 'node:timers/promises'
import { upTo } from './client.ts'

/** What was returned to the callers of one counter. */
export interface Load {
  /** The numbers they were given. */
  answered: number[]
  /** The codes, or messages, of what they were refused with. */
  refused: string[]
  /** Waits until so many more callers have received their number. */
  afterMore(answered: number): Promise<void>
  /** Ends it, and waits for the last answers. */
  end(): Promise<void>
}

/** Keeps a number of callers incrementing, each as soon as it has its answer. */
export function startLoad(callers: number, increment: (caller: number) => Promise<number>): Load {
  const answered: number[] = []
  const refused: string[] = []
  const awaited = new Set<{ goal: number; resolve: () => void }>()
  let isOver = false
  const loops = upTo(callers).map(async (caller) => {
    while (!isOver) {
      try {
        answered.push(await increment(caller))
        for (const waiter of awaited) if (answered.length >= waiter.goal) waiter.resolve()
      } catch (error) {
        const { code, message } = error as { code?: string; message: string }
        refused.push(code ?? message)
        // As clients do: without it, callers of a server that has ended would keep a core busy.
        await pause(10)
      }
    }
  })
  return {
    answered,
    refused,
    afterMore: (more) =>
      new Promise((resolve) => {
        const waiter = {
          goal: answered.length + more,
          resolve: () => {
            awaited.delete(waiter)
            resolve()
          },
        }
        awaited.add(waiter)
      }),
    async end() {
      isOver = true
      await Promise.all(loops)
    },
  }
}
