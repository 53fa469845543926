import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { PERIODS } from '../rules/calendar.ts'
import {
  type Entry,
  type EntryOf,
  entryIn,
  FORMAT_VERSION,
  header,
  type Placed,
  type StoredPeriodTotal,
} from '../rules/entries.ts'
import { roundedNumber } from '../rules/jsonNumbers.ts'
import { nameFault, textFault } from '../rules/names.ts'

/** The columns that an export writes. An import needs `name` and `value`. */
const COLUMNS = ['type', 'namespace', 'name', 'group', 'period', 'value'] as const

type Column = (typeof COLUMNS)[number]

/** The columns whose cells callers choose. */
const TEXTS: readonly Column[] = ['namespace', 'name', 'group']

/** Before the name of a column: its cells are escaped for spreadsheets. */
const ESCAPED = "'"

/** What a spreadsheet takes for the beginning of a formula, and the mark itself. */
const FORMULA = /^(?=[=+\-@＝＋－＠'])/

/**
 * A text that no spreadsheet takes for a formula: with an apostrophe before it, as OWASP advises (CSV Injection). One also
 * follows each semicolon, at which spreadsheets of many countries begin a new cell.
 */
function escaped(text: string): string {
  return text.replace(FORMULA, "'").replaceAll(';', ";'")
}

function unescaped(text: string): string {
  return text.replaceAll(";'", ';').replace(/^'/, '')
}

/** How an export is written as CSV. `escapes`: for spreadsheets; the names of such columns say so. */
export function openCsv(escapes: boolean) {
  const textOf = escapes ? escaped : (text: string) => text
  return {
    // Without a byte order mark, Excel takes UTF-8 for something else.
    header: escapes
      ? `\ufeff${csvLine(COLUMNS.map((column) => (TEXTS.includes(column) ? ESCAPED + column : column)))}`
      : csvLine(COLUMNS),

    /** The line of an entry: of a counter its value, of a sequence group the last number of its latest period. */
    lineOf(entry: Entry): string {
      if (entry.type === 'counter')
        return csvLine(['counter', textOf(entry.namespace), textOf(entry.name), '', '', entry.value])
      if (entry.type !== 'sequenceGroup') return ''
      const { period = 0, lastValue } = entry.latest ?? {}
      if (lastValue == null) return ''
      const key = [entry.namespace, entry.sequence, entry.group].map(textOf)
      return csvLine([entry.type, ...key, period, lastValue])
    },
  }
}

/**
 * The entries of a CSV file, whose first line names its columns.
 *
 * @throws {Error} if that line is wrong: no other one can be read then
 */
export async function* csvEntries(
  lines: AsyncIterable<TextLine | LineFault>,
  namespace: string,
): AsyncGenerator<Placed | LineFault> {
  let entryIn: ((row: string) => Entry) | undefined
  let isEmpty = true
  for await (const part of lines) {
    const { line } = part
    if (!('fault' in part) && part.text.trim() === '') continue
    try {
      if ('fault' in part) throw new Error(part.fault)
      const row = part.text.replace(/\r$/, '')
      if (!entryIn) {
        entryIn = readerOf(row, namespace)
        continue
      }
      isEmpty = false
      yield { line, entry: entryIn(row) }
    } catch (error) {
      const fault = (error as Error).message
      if (!entryIn) throw new Error(`Line ${line}: ${fault}.`, { cause: error })
      yield { line, fault }
    }
  }
  if (!entryIn) throw new Error('The file is empty; its first line must name its columns.')
  if (isEmpty) throw new Error('The file has no line after the one that names its columns.')
}

/** Reads rows below a header. */
function readerOf(header: string, namespace: string): (row: string) => Entry {
  // Spreadsheets also write semicolons or tabs. No name of a column contains one.
  const separator = /[,;\t]/.exec(header)?.[0] ?? ','
  const columns = columnsIn(cellsIn(header, separator))
  return (row) => {
    const cells = cellsIn(row, separator)
    if (cells.length !== columns.length)
      throw new Error(`${cells.length} cells, but ${columns.length} columns`)
    const fields = columns.map(({ column, isEscaped }, index) => {
      const cell = cells[index] ?? ''
      return [column, isEscaped ? unescaped(cell) : cell]
    })
    return entryOfFields({ namespace, ...Object.fromEntries(fields) })
  }
}

const UNKNOWN_TIMES = { createdAt: undefined, updatedAt: undefined }

/** @throws {Error} saying which field is wrong */
function entryOfFields(fields: { [C in Column]?: string }): Entry {
  const { type = 'counter', namespace = '', name = '', group = '', period = '', value = '' } = fields
  for (const [column, text, faultOf] of [
    ['namespace', namespace, nameFault],
    ['name', name, nameFault],
    ['group', group, textFault],
  ] as const) {
    const fault = faultOf(text)
    if (fault) throw new Error(`${column} ${fault.message}`)
  }
  const number = integerIn(value, 'value')
  if (type === 'counter') {
    if (group !== '' || period !== '') throw new Error('a counter has no group and no period')
    return { type, namespace, name, value: number, history: [] }
  }
  if (type !== 'sequenceGroup') throw new Error('type must be counter or sequenceGroup')
  const key = period === '' ? 0 : integerIn(period, 'period')
  if (key < 0 || key >= 2 ** 32) throw new Error('period must be as in an export, such as 202611')
  return {
    type,
    namespace,
    sequence: name,
    group,
    latest: { period: key, format: undefined, timeZone: undefined, isCurrent: true },
    periods: [{ ...UNKNOWN_TIMES, period: key, lastValue: number, nextValue: null, generation: 0 }],
  }
}

function columnsIn(cells: readonly string[]) {
  const columns = cells.map((cell) => {
    const name = cell.trim().toLowerCase()
    const isEscaped = TEXTS.some((column) => name === ESCAPED + column)
    const column = COLUMNS.find((column) => column === (isEscaped ? name.slice(ESCAPED.length) : name))
    if (!column) throw new Error(`unknown column "${name}"; supported: ${COLUMNS.join(', ')}`)
    return { column, isEscaped }
  })
  const names = columns.map(({ column }) => column)
  for (const needed of ['name', 'value'] as const)
    if (!names.includes(needed)) throw new Error(`the column ${needed} is missing`)
  const repeated = names.find((column, index) => names.indexOf(column) !== index)
  if (repeated) throw new Error(`the column ${repeated} occurs twice`)
  return columns
}

function integerIn(text: string, column: string): number {
  const number = /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(number)) return number + 0
  throw new Error(`${column} must be an integer from -(2^53-1) to 2^53-1; it is "${text.slice(0, 40)}"`)
}

/** Also quotes cells with spaces at an end, which some programs remove. */
function csvLine(cells: readonly (string | number)[]): string {
  return stringify([cells], { record_delimiter: 'windows', quoted_match: /^\s|\s$|\r/ })
}

/** Maximum length of a row, in characters: many times that of the longest names. */
const MAX_ROW = 2 ** 16

/**
 * The cells of a row as RFC 4180 has them, except that none contains a line break, as no name does: so whatever is wrong
 * with a row is known within its line. Of a whole file, the parser would name the last line for a quote that isn't closed.
 *
 * @throws {Error} saying what is wrong with it
 */
function cellsIn(row: string, delimiter: string): string[] {
  if (row.length > MAX_ROW) throw new Error(`it is longer than ${MAX_ROW} characters`)
  if (row.includes('\r')) throw new Error('it contains a CR; lines must end with LF or CR LF')
  // The parser would take ten times as long: 12 s for a million rows.
  if (!row.includes('"')) return row.split(delimiter)
  try {
    return parse(row, { delimiter })[0] ?? []
  } catch (cause) {
    throw new Error('a quote is not closed, is not doubled, or does not enclose the whole cell', { cause })
  }
}

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
    if (state === 'ended') throw new Error(`Line ${line}: nothing may follow the last line of an export.`)
    if (state === 'empty') {
      headerIn(part)
      state = 'begun'
      continue
    }
    const read = readLine(part)
    if ('linesBefore' in read) {
      if (read.linesBefore !== count)
        throw new Error(
          `Line ${line}: the export wrote ${read.linesBefore} lines between the first and this one, but the file has ${count}.`,
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
  if (!data) throw new Error('Line 1 is not the first line of an export of Nth.')
  if (data.formatVersion > FORMAT_VERSION)
    throw new Error(
      `Line 1: this file has format ${data.formatVersion}, and this version of Nth reads up to ${FORMAT_VERSION}. Use a later one.`,
    )
  return data.at
}

/** The first line of an export. `at`: the instant whose state it shows, by the database's clock. */
export function headerLine(version: string, at: Date, hasSubjects: boolean): string {
  const formatVersion = hasSubjects ? FORMAT_VERSION : FORMAT_VERSION - 1
  return `${JSON.stringify({ type: 'nth', formatVersion, version, at })}\n`
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
        definition: entry.definition && {
          ...entry.definition,
          // Earlier versions refuse it.
          oncePer: entry.definition.oncePer ?? undefined,
          periods: tracked(entry.definition.periods),
        },
        history: historyFields(entry),
      }
    case 'counterHistory':
      return { ...entry, history: historyFields(entry) }
    default:
      return entry
  }
}

function tracked(periods: EntryOf<'namespace'>['periods']) {
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

/** A line of a file, from 1. */
export interface TextLine {
  line: number
  text: string
}

/** What is wrong with a line, as the end of a sentence that begins with its number. */
export interface LineFault {
  line: number
  fault: string
}

/** Maximum length of a line, in bytes: many times that of a counter with a thousand totals. */
const MAX_LINE = 16 * 2 ** 20
const NEWLINE = 0x0a

/**
 * Lines of a stream of bytes, without the byte order mark at its beginning. Only a newline ends a line: names may contain
 * other separators that `node:readline` knows.
 *
 * @throws {Error} naming the line that is too long
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<TextLine | LineFault> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let line = 0
  let parts: Buffer[] = []
  let length = 0

  function take(): TextLine | LineFault {
    line++
    const whole = parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)
    parts = []
    length = 0
    try {
      const text = decoder.decode(whole)
      return { line, text: line === 1 && text.startsWith('\ufeff') ? text.slice(1) : text }
    } catch {
      return {
        line,
        fault:
          'it is not UTF-8; save the file as UTF-8, or convert it, for example with iconv -f latin1 -t utf-8',
      }
    }
  }

  for await (const chunk of chunks) {
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      parts.push(chunk.subarray(from, at))
      yield take()
      from = at + 1
    }
    if (from < chunk.length) parts.push(chunk.subarray(from))
    length += chunk.length - from
    if (length > MAX_LINE) throw new Error(`Line ${line + 1}: it is longer than ${MAX_LINE} bytes.`)
  }
  if (parts.length > 0) yield take()
}
