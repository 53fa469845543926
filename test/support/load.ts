import { upTo } from './client.ts'

/** What callers were told of one counter. */
export interface Load {
  /** The numbers they were given. */
  answered: number[]
  /** The codes, or messages, of what they were refused with. */
  refused: string[]
  /** Ends it, and waits for the last answers. */
  end(): Promise<void>
}

/** Keeps a number of callers incrementing, each as soon as it has its answer. */
export function startLoad(callers: number, increment: (caller: number) => Promise<number>): Load {
  const answered: number[] = []
  const refused: string[] = []
  let isOver = false
  const loops = upTo(callers).map(async (caller) => {
    while (!isOver) {
      try {
        answered.push(await increment(caller))
      } catch (error) {
        const { code, message } = error as { code?: string; message: string }
        refused.push(code ?? message)
      }
    }
  })
  return {
    answered,
    refused,
    async end() {
      isOver = true
      await Promise.all(loops)
    },
  }
}

/** Waits until `answered` more have been told their number. */
export async function afterMore(load: Load, answered: number): Promise<void> {
  const goal = load.answered.length + answered
  while (load.answered.length < goal) await new Promise((resolve) => setImmediate(resolve))
}
