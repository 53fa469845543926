import type { Connection, RowDataPacket } from 'mysql2/promise'
import { openTally } from '../load/tally.ts'
import { ask } from '../load/values.ts'
import type { Metrics } from './metrics.ts'
import { BOARD_SEQUENCE, INVOICES } from './requests.ts'
import type { Sample } from './samples.ts'
import type { Counted } from './tally.ts'

/** Says which connections and files were not closed: `closed` is after the clients, `start` before them. */
export function checkConnections(start: Sample, samples: readonly Sample[], closed: Sample): string[] {
  const toDatabase = samples.map((one) => one.toDatabase)
  const first = Math.max(...toDatabase.slice(0, Math.ceil(samples.length / 2)))
  const last = Math.max(...toDatabase, closed.toDatabase)
  const opened = closed.files - closed.toDatabase - (start.files - start.toDatabase)
  return [
    ...(last > first ? [`connections to the database grew from ${first} to ${last}`] : []),
    ...(opened > 0 ? [`the workers have ${opened} files more than before, besides those connections`] : []),
  ]
}

/** Says where the metrics differ from what clients counted: of each worker, and in all. */
export function checkAnswers(counted: Counted['answers'], shown: Record<string, number>): string[] {
  const expected = { ...counted, ...sumsOf(counted) }
  return [...new Set([...Object.keys(expected), ...Object.keys(shown)])]
    .filter((kind) => expected[kind] !== shown[kind])
    .map((kind) => `"${kind}": clients counted ${expected[kind] ?? 0}, the metrics show ${shown[kind] ?? 0}`)
}

/** Says which of the other metrics differ: how many durations were measured, and how many changes have waited. */
export function checkDurations(counted: Counted['answers'], before: Metrics, after: Metrics): string[] {
  const sums = sumsOf(counted)
  // Each of these mutations has one change. One with invalid arguments has not waited.
  const waits = (sums['mutation OK'] ?? 0) + (sums['mutation LIMIT_REACHED'] ?? 0)
  const expected: Record<string, number> = { nth_wait_duration_seconds_count: waits }
  for (const [kind, count] of Object.entries(sums)) {
    const name = `nth_request_duration_seconds_count{operation="${kind.split(' ')[0]}"}`
    expected[name] = (expected[name] ?? 0) + count
  }
  return Object.entries(expected).flatMap(([name, count]) => {
    const growth = (after.get(name) ?? 0) - (before.get(name) ?? 0)
    return growth === count ? [] : [`${name} grew by ${growth}, not ${count}`]
  })
}

/** What all workers answered together, by kind of operation and code. */
function sumsOf(counted: Counted['answers']): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const [key, count] of Object.entries(counted)) {
    const kind = key.slice(key.indexOf(' ') + 1)
    sums[kind] = (sums[kind] ?? 0) + count
  }
  return sums
}

/** Says which numbers were issued twice or left out, or differ from the rows. */
export async function checkNumbers(numbers: Counted['numbers'], connection: Connection): Promise<string[]> {
  const rows = new Map([...(await counterRows(connection)), ...(await groupRows(connection, BOARD_SEQUENCE))])
  const issued = Object.keys(numbers).filter((of) => !of.startsWith('confirmed '))
  return [...new Set([...issued, ...rows.keys()])].flatMap((of) => {
    const tally = openTally([of], [0])
    for (const value of numbers[of] ?? []) tally.note(0, value)
    return faultIn(() => tally.check([rows.get(of) ?? 0]))
  })
}

/** Confirms the numbers that are free, and says what is wrong with all that were confirmed then. */
export async function checkReservations(
  numbers: Counted['numbers'],
  connection: Connection,
  url: URL,
): Promise<string[]> {
  const confirmed: number[] = [...(numbers[`confirmed ${INVOICES}`] ?? [])]
  const furthest = (await groupRows(connection, INVOICES)).get('group ') ?? 0
  for (let free = furthest - confirmed.length; free > 0; free--) {
    const { reserveInSequence } = await ask(url, {
      query: 'mutation($name: String!) { reserveInSequence(name: $name) { id value } }',
      variables: { name: INVOICES },
    })
    await ask(url, {
      query: 'mutation($id: ID!) { confirmReservation(id: $id) { state } }',
      variables: { id: reserveInSequence.id },
    })
    confirmed.push(reserveInSequence.value)
  }
  const tally = openTally([`confirmed ${INVOICES}`], [0])
  for (const value of confirmed) tally.note(0, value)
  return faultIn(() => tally.check([furthest]))
}

function faultIn(check: () => void): string[] {
  try {
    check()
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

async function counterRows(connection: Connection): Promise<Map<string, number>> {
  return valuesIn(
    connection,
    `select concat('counter ', convert(counter.name using utf8mb4)) as name, sum(counter_value.value) as value
       from counter
       join counter_value on counter_value.counter_id = counter.id
      group by counter.id`,
  )
}

async function groupRows(connection: Connection, sequence: string): Promise<Map<string, number>> {
  return valuesIn(
    connection,
    `select concat('group ', convert(sequence_group.name using utf8mb4)) as name, sequence_value.value as value
       from sequence
       join sequence_group on sequence_group.sequence_id = sequence.id
       join sequence_value on sequence_value.group_id = sequence_group.id
      where sequence.name = ?`,
    [sequence],
  )
}

async function valuesIn(
  connection: Connection,
  sql: string,
  values: string[] = [],
): Promise<Map<string, number>> {
  const [rows] = await connection.query<RowDataPacket[]>(sql, values)
  return new Map(rows.map(({ name, value }) => [String(name), Number(value)]))
}
