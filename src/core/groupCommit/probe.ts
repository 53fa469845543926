import { isOf } from '../rows.ts'
import { batchOf } from './batch.ts'
import type { Call } from './call.ts'
import type { CounterRun } from './counterRun.ts'
import type { FlushOptions } from './flushLoop.ts'
import { openPrecautions } from './precautions.ts'
import type { SequenceRun } from './sequenceRun.ts'
import type { Writer } from './writer.ts'

/** Tries to lock one row or claim of a call, and holds nothing else meanwhile. Returns the failure. */
export async function probe(writer: Writer, key: string, call: Call, { now, random }: FlushOptions) {
  const at = now()
  const { counters, sequenceGroups, claims } = batchOf([call], openPrecautions(random), at)
  const hasKey = ({ row }: CounterRun | SequenceRun) => isOf(row, key)
  for (const run of [...counters, ...sequenceGroups]) run.takeLockedPath()
  const outcome = await writer.flush({
    counters: counters.filter(hasKey),
    sequenceGroups: sequenceGroups.filter(hasKey).slice(0, 1),
    claims: claims.filter((claim) => claim.key === key),
    at,
    isImpatient: false,
    isOptimistic: false,
    awaited: AbortSignal.abort(),
    decide: () => 'withdraw',
    commit: () => false,
  })
  return outcome.kind === 'failed' && outcome.failingKey === key ? outcome : undefined
}
