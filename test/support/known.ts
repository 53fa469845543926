import type { Counters } from '../../src/core/counters/counters.ts'
import { DEFAULT_RETENTION } from '../../src/core/counters/definition.ts'
import type { CounterKey, CounterRetention } from '../../src/core/counters/state.ts'

/** A counter and what it is, as reads of its periods want it. */
export async function known(counters: Counters, { namespace, name }: CounterKey): Promise<CounterRetention> {
  const { definition } = await counters.read({ namespace, name })
  return { namespace, name, retention: definition ?? DEFAULT_RETENTION, slots: definition?.slots ?? 1 }
}
