import { PERIODS } from '../../core/time/calendar.ts'
import {
  type CounterEntry,
  type Entry,
  FORMAT_VERSION,
  type NamespaceEntry,
  type PeriodTotal,
} from '../../core/transfer/entries.ts'

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

function historyFields({ history }: { history: readonly PeriodTotal[] }) {
  const periods = PERIODS.flatMap((period) => {
    const own = history.filter((total) => total.period === period).toSorted((a, b) => a.start - b.start)
    return own.length > 0 ? [[period, own.map(totalFields)] as const] : []
  })
  return Object.fromEntries(periods)
}

function totalFields({ start, value }: PeriodTotal): [string, number | string] {
  const number = Number(value)
  const at = `${new Date(1000 * start).toISOString().slice(0, 19)}Z`
  return [at, Number.isSafeInteger(number) ? number : String(value)]
}
