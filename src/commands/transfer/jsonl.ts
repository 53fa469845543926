import { PERIODS } from '../../rules/calendar.ts'
import {
  type CounterEntry,
  type Entry,
  FORMAT_VERSION,
  type NamespaceEntry,
  type Placed,
  type StoredPeriodTotal,
} from '../../rules/entries.ts'
import { roundedNumber } from '../../rules/jsonNumbers.ts'
import { entryIn, header } from '../jsonlSchema.ts'
import type { LineFault, TextLine } from './lines.ts'

/**
 * The entries of an export in JSON Lines, and what is wrong with some of its lines.
 *
 * @throws {Error} if its first or last line is wrong
 */
export async function* jsonlEntries(
  lines: AsyncIterable<TextLine | LineFault>,
): AsyncGenerator<Placed | LineFault> {
  let state: 'empty' | 'begun' | 'ended' = 'empty'
  let count = 0
  for await (const part of lines) {
    const { line } = part
    if ('text' in part && part.text.trim() === '') continue
    if (state === 'ended') throw new Error(`Line ${line}: it follows the last line of an export.`)
    if (state === 'empty') {
      headerIn(part)
      state = 'begun'
      continue
    }
    const read = readLine(part)
    if ('linesBefore' in read) {
      if (read.linesBefore !== count)
        throw new Error(
          `Line ${line}: between the first line and this one, ${read.linesBefore} were written, and there are ${count}.`,
        )
      state = 'ended'
      continue
    }
    count++
    yield read
  }
  if (state === 'empty') throw new Error('The file is empty.')
  if (state === 'begun') throw new Error('The file is incomplete: its last line is missing.')
}

/**
 * The instant whose state an export in JSON Lines shows.
 *
 * @throws {Error} if the first line is not that of an export
 */
export async function instantOf(lines: AsyncIterable<TextLine | LineFault>): Promise<Date> {
  for await (const part of lines) return headerIn(part)
  throw new Error('The file is empty.')
}

/** An entry, or what is wrong with it; of the last line, how many entries should have come before. */
function readLine(part: TextLine | LineFault): Placed | LineFault | { linesBefore: number } {
  if ('fault' in part) return part
  const { line, text } = part
  try {
    const entry = entryIn(parsed(text))
    return entry.type === 'end' ? { linesBefore: entry.lines } : { line, entry }
  } catch (error) {
    return { line, fault: (error as Error).message }
  }
}

function parsed(text: string): unknown {
  const fields = json(text)
  if (fields === undefined) throw new Error('it is not JSON')
  if (roundedNumber(text) !== undefined) throw new Error('it has a number that is not an integer')
  return fields
}

/** Undefined: it is not JSON. */
function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function headerIn(part: TextLine | LineFault): Date {
  if ('fault' in part) throw new Error(`Line 1: ${part.fault}.`)
  const { data } = header.safeParse(json(part.text))
  if (!data) throw new Error('Line 1 is not that of an export of Nth.')
  if (data.formatVersion > FORMAT_VERSION)
    throw new Error(
      `Line 1: this file has format ${data.formatVersion}, and this version of Nth reads up to ${FORMAT_VERSION}. Use a later one.`,
    )
  return data.at
}

/** The first line of an export. `at`: the instant whose state it shows, by the database's clock. */
export function headerLine(version: string, at: Date): string {
  return `${JSON.stringify({ type: 'nth', formatVersion: FORMAT_VERSION, version, at })}\n`
}

/** The last line of an export: without it, a file is not whole. */
export function endLine(lines: number): string {
  return `${JSON.stringify({ type: 'end', lines })}\n`
}

export function lineOf(entry: Entry): string {
  return `${JSON.stringify(fieldsOf(entry))}\n`
}

function fieldsOf(entry: Entry): object {
  switch (entry.type) {
    case 'namespace':
      return { ...entry, periods: tracked(entry.periods) }
    case 'counter':
      return {
        ...entry,
        definition: entry.definition && definitionFields(entry.definition),
        history: historyFields(entry),
      }
    case 'counterHistory':
      return { ...entry, history: historyFields(entry) }
    default:
      return entry
  }
}

function definitionFields({ bounds, slots, timeZone, periods }: NonNullable<CounterEntry['definition']>) {
  const { minValue = null, maxValue = null, overflow = 'REJECT' } = bounds ?? {}
  return { minValue, maxValue, overflow, slots, timeZone, periods: tracked(periods) }
}

function tracked(periods: NamespaceEntry['periods']) {
  return periods.map((one) => ({ ...one, since: one.since === null ? null : new Date(one.since) }))
}

function historyFields({ history }: { history: readonly StoredPeriodTotal[] }) {
  const periods = PERIODS.flatMap((period) => {
    const own = history.filter((total) => total.period === period).toSorted((a, b) => a.start - b.start)
    return own.length > 0 ? [[period, own.map(totalFields)] as const] : []
  })
  return Object.fromEntries(periods)
}

function totalFields({ start, value }: StoredPeriodTotal): [string, number | string] {
  const number = Number(value)
  const at = `${new Date(1000 * start).toISOString().slice(0, 19)}Z`
  return [at, Number.isSafeInteger(number) ? number : String(value)]
}
