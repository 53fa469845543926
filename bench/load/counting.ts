import type { Counting } from '../workloads.ts'
import type { Request } from './drive.ts'
import { bytesOf, bytesWithUuid, changeAllOf, changeOf, keyedChangeOf, readOf } from './requests.ts'
import type { Scenario } from './scenario.ts'
import { openTally, type PeriodTotal } from './tally.ts'
import { ask, createApiKeys, readValues } from './values.ts'

/** Clients that change numbers, each of which is noted, or read all of them. */
export async function openCounting(url: URL, workload: Counting): Promise<Scenario> {
  if (workload.preparation) await ask(url, { query: workload.preparation, variables: {} })
  const before = await readValues(url, workload)
  const tally = openTally(workload.names, before, workload.mayRepeat)
  const apiKeys = await createApiKeys(url, workload.apiKeys ?? 0)
  const changes = changesOf(workload, url, tally, apiKeys)
  const read = readingOf(workload, url, before)
  return {
    first: workload.change === 'all' ? changes.slice(0, 1) : changes,
    pick: () =>
      Math.random() < workload.readShare ? read : changes[Math.floor(Math.random() * changes.length)],
    check: async () => tally.check(await readValues(url, workload)),
  }
}

/** Most requests that are made beforehand. */
const KEPT = 100_000

/** How many requests there are that change all, each in an order of its own. */
const ORDERS = 64

function changesOf(workload: Counting, url: URL, tally: PeriodTotal, apiKeys: readonly string[]): Request[] {
  const { kind, names, change = 'one' } = workload
  if (change === 'all') {
    return Array.from({ length: ORDERS }, () => {
      const places = shuffled(names.keys())
      const bytes = bytesOf(changeAllOf(places.map((place) => names[place] ?? '')), url)
      return changing(places, () => bytes, 'incrementMany', tally)
    })
  }
  const field = kind === 'counter' ? 'increment' : 'nextInSequence'
  if (apiKeys.length > 0) {
    return names.flatMap((name, place) =>
      apiKeys.map((apiKey) => {
        const bytes = bytesOf(changeOf(workload, name), url, apiKey)
        return changing([place], () => bytes, field, tally)
      }),
    )
  }
  return names.map((name, place) => {
    if (change === 'keyed') {
      return changing(
        [place],
        bytesWithUuid((key) => keyedChangeOf(name, key), url),
        field,
        tally,
      )
    }
    // Not kept for each of a million.
    if (names.length > KEPT)
      return changing([place], () => bytesOf(changeOf(workload, name), url), field, tally)
    const bytes = bytesOf(changeOf(workload, name), url)
    return changing([place], () => bytes, field, tally)
  })
}

function shuffled(places: Iterable<number>): number[] {
  return [...places]
    .map((place) => ({ place, by: Math.random() }))
    .sort((a, b) => a.by - b.by)
    .map(({ place }) => place)
}

/** One that changes the names at some places, and is answered with their numbers in the same order. */
function changing(
  places: readonly number[],
  bytes: Request['bytes'],
  field: string,
  tally: PeriodTotal,
): Request {
  return {
    bytes,
    changes: places.length,
    take(body) {
      const { data, errors } = JSON.parse(body)
      const values: unknown[] = [data?.[field]].flat().map((change) => change?.value)
      if (errors || values.length !== places.length) throw wrongChange(body)
      for (const [index, place] of places.entries()) {
        const value = values[index]
        if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw wrongChange(body)
        tally.note(place, value)
      }
    },
  }
}

function wrongChange(body: string): Error {
  return new Error(`It answered a change with ${body}`)
}

/** One that reads all. Every name must have a value, and none may be older than what was there before. */
function readingOf({ names, namespace }: Counting, url: URL, before: readonly number[]): Request {
  const bytes = bytesOf(readOf(names, namespace), url)
  return {
    bytes: () => bytes,
    changes: 0,
    take(body) {
      const { data, errors } = JSON.parse(body)
      const values: unknown[] = data?.counters?.map(({ value }: { value: unknown }) => value) ?? []
      const isGood = values.every(
        (value, place) => typeof value === 'number' && value >= (before[place] ?? 0),
      )
      if (errors || values.length !== before.length || !isGood) {
        throw new Error(`It answered a read of ${before.length} names with ${body}`)
      }
    },
  }
}
