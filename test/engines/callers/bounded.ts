import { setTimeout as pause } from 'node:timers/promises'
import { type Caller, noteUnexpected } from '../caller.ts'
import type { Definitions } from './definitions.ts'
import { NAMESPACE } from './namespace.ts'

const INCREMENT = `mutation { change: increment(name: "bounded", namespace: "${NAMESPACE}") { value previousValue } }`
const PAUSE_MS = 20

/** A counter with a highest value, which is raised again and again. */
export async function countBounded(caller: Caller, { limit }: Definitions): Promise<void> {
  const { journal, book } = caller
  const acknowledged = limit.acknowledged
  const outcome = await caller.call<{ change: { value: number; previousValue: number } }>(INCREMENT, {})
  if (outcome.kind === 'unknown') return book.unknown('bounded', 'bounded', 1)
  if (outcome.kind === 'answered') {
    const { value, previousValue } = outcome.data.change
    book.answered('bounded', 'bounded', previousValue, value)
    if (value > limit.requested) journal.wrong.push(`bounded: ${value} of at most ${limit.requested}`)
    return
  }
  if (outcome.code !== 'LIMIT_REACHED') return noteUnexpected(caller, 'bounded', outcome)
  const { limit: stated, value } = outcome.details as { limit: number; value: number }
  if (stated < acknowledged) journal.wrong.push(`bounded: limit ${stated} after ${acknowledged} was answered`)
  if (value !== stated) journal.wrong.push(`bounded: refused at ${value} of ${stated}`)
  await pause(PAUSE_MS)
}
