import type { Counters } from '../../../src/repository/counters.ts'
import { type CounterKey, type CounterRetention, DEFAULT_RETENTION } from '../../../src/rules/counter.ts'

/** A counter and what it is, as reads of its periods want it. */
export async function known(counters: Counters, { namespace, name }: CounterKey): Promise<CounterRetention> {
  const { definition } = await counters.read({ namespace, name })
  return { namespace, name, retention: definition ?? DEFAULT_RETENTION, slots: definition?.slots ?? 1 }
}
