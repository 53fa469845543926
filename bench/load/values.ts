import type { Counting } from '../workloads.ts'
import { createApiKeysOf, lastOf, type Operation, readOf } from './requests.ts'

/** The most names that one request may read. */
const MOST_NAMES = 500

/** The present values of a workload's rows, in the order of its names. */
export async function readValues(url: URL, { kind, names, namespace }: Counting): Promise<number[]> {
  const values: number[] = []
  if (kind === 'group') {
    for (const name of names) values.push((await ask(url, lastOf(name))).sequence.group.lastValue ?? 0)
  } else {
    for (let at = 0; at < names.length; at += MOST_NAMES) {
      const { counters } = await ask(url, readOf(names.slice(at, at + MOST_NAMES), namespace))
      for (const { value } of counters) values.push(value)
    }
  }
  return values
}

/** The most keys that one request creates. */
const MOST_KEYS = 100

/** Keys that were created, by server and number: those of one measurement serve the next. */
const created = new Map<string, string[]>()

/** Creates API keys that may increment any counter. */
export async function createApiKeys(url: URL, count: number): Promise<string[]> {
  const name = `${url} ${count}`
  const secrets = created.get(name) ?? []
  created.set(name, secrets)
  while (secrets.length < count) {
    const answer = await ask(url, createApiKeysOf(Math.min(MOST_KEYS, count - secrets.length)))
    for (const { secret } of Object.values(answer)) secrets.push(secret)
  }
  return secrets
}

interface Data {
  reserveInSequence: { id: string; value: number }
  counters: { value: number }[]
  sequence: { group: { lastValue: number | null } }
}

export async function ask(url: URL, operation: Operation): Promise<Data> {
  const response = await fetch(new URL('/graphql', url), {
    method: 'POST',
    // So that it leaves no connection.
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify(operation),
  })
  const text = await response.text()
  const { data, errors } = JSON.parse(text)
  if (errors || !data) throw new Error(`It answered with ${text}`)
  return data
}
