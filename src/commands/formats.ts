import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { version } from '../operations/process.ts'
import { PERIODS } from '../rules/calendar.ts'
import {
  type Entry,
  entryIn,
  FORMAT_VERSION,
  header,
  type Placed,
  type StoredPeriodTotal,
} from '../rules/entries.ts'
import { roundedNumber } from '../rules/jsonNumbers.ts'
import { faultAt, nameFault, textFault } from '../rules/names.ts'

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

/**
 * Entries as CSV: of a counter its value, of a sequence group the last number of its latest period. `escapes`: no
 * spreadsheet takes a name for a formula; the names of such columns say so.
 */
export async function* csvTexts(entries: AsyncIterable<Entry>, escapes: boolean): AsyncGenerator<string> {
  const textOf = escapes ? escaped : (text: string) => text
  const columnOf = (column: Column) => (escapes && TEXTS.includes(column) ? ESCAPED + column : column)
  // Without a byte order mark, Excel takes UTF-8 for something else.
  yield (escapes ? '\ufeff' : '') + csvLine(COLUMNS.map(columnOf))
  for await (const entry of entries) {
    if (entry.type === 'counter')
      yield csvLine([entry.type, textOf(entry.namespace), textOf(entry.name), '', '', entry.value])
    if (entry.type !== 'sequenceGroup' || entry.latest?.lastValue == null) continue
    const key = [entry.namespace, entry.sequence, entry.group].map(textOf)
    yield csvLine([entry.type, ...key, entry.latest.period, entry.latest.lastValue])
  }
}

/**
 * The entries of a CSV file, whose first line names its columns, and what is wrong with some of its lines.
 *
 * @throws {Error} if it has no rows
 */
export async function* csvEntries(
  lines: AsyncIterable<TextLine>,
  namespace: string,
): AsyncGenerator<Placed | LineFault> {
  let entryIn: ((row: string) => Entry) | undefined
  let isEmpty = true
  for await (const { line, text } of lines) {
    const row = text.replace(/\r$/, '')
    try {
      if (entryIn) {
        isEmpty = false
        yield { line, entry: entryIn(row) }
      } else entryIn = readerOf(row, namespace)
    } catch (error) {
      yield { line, fault: (error as Error).message }
      // Without the columns, no other line can be read.
      if (!entryIn) return
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

/** @throws {Error} saying which field is wrong */
function entryOfFields(fields: { [C in Column]?: string }): Entry {
  const { type = 'counter', namespace = '', name = '', group = '', period = '', value = '' } = fields
  const fault =
    faultAt(['namespace'], nameFault(namespace)) ??
    faultAt(['name'], nameFault(name)) ??
    faultAt(['group'], textFault(group))
  if (fault) throw new Error(`${fault.path} ${fault.message}`)
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
    latest: { period: key, isCurrent: true },
    periods: [{ period: key, lastValue: number, nextValue: null, generation: 0 }],
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
 * @throws {Error} if its first line is wrong, its last one is missing, or something follows that
 */
export async function* jsonlEntries(lines: AsyncIterable<TextLine>): AsyncGenerator<Placed | LineFault> {
  let state: 'empty' | 'begun' | 'ended' = 'empty'
  let count = 0
  for await (const { line, text } of lines) {
    if (state === 'ended') throw new Error(`Line ${line}: nothing may follow the last line of an export.`)
    if (state === 'empty') {
      const { formatVersion } = headerIn(text) ?? {}
      if (formatVersion === undefined) throw new Error(NO_EXPORT)
      if (formatVersion > FORMAT_VERSION)
        throw new Error(
          `Line 1: this file has format ${formatVersion}, and this version of Nth reads up to ${FORMAT_VERSION}. Use a later one.`,
        )
      state = 'begun'
      continue
    }
    try {
      const entry = entryOf(text)
      if (entry.type !== 'end') yield { line, entry }
      else {
        state = 'ended'
        if (entry.lines !== count)
          throw new Error(
            `the export wrote ${entry.lines} lines between the first and this one, but the file has ${count}`,
          )
      }
    } catch (error) {
      yield { line, fault: (error as Error).message }
    }
    count++
  }
  if (state !== 'ended') throw new Error('The file is incomplete: its last line is missing.')
}

function entryOf(text: string): ReturnType<typeof entryIn> {
  const fields = json(text)
  if (fields === undefined) throw new Error('it is not JSON')
  if (roundedNumber(text) !== undefined) throw new Error('it has a number that is not an integer')
  return entryIn(fields)
}

/** Undefined: it is not JSON. */
function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The first line of an export in JSON Lines; undefined: it is not one. */
export function headerIn(text: string) {
  return header.safeParse(json(text)).data
}

export const NO_EXPORT = 'Line 1 is not the first line of an export of Nth.'

/**
 * Entries as JSON Lines. The first line has the instant whose state they show, by the database's clock. Without the last
 * line, a file is not whole.
 */
export async function* jsonlTexts(
  at: Date,
  hasSubjects: boolean,
  entries: AsyncIterable<Entry>,
  revision?: number,
): AsyncGenerator<string> {
  const formatVersion = hasSubjects ? FORMAT_VERSION : FORMAT_VERSION - 1
  yield lineOf({ type: 'nth', formatVersion, version, at, revision })
  let lines = 0
  for await (const entry of entries) {
    yield lineOf(entry)
    lines++
  }
  yield lineOf({ type: 'end', lines })
}

function lineOf(fields: object): string {
  return `${JSON.stringify(fields, written)}\n`
}

/** The parts of entries that have another form in a file. */
function written(member: string, part: unknown): unknown {
  switch (member) {
    case 'history':
      // No other part has this name.
      return historyFields(part as readonly StoredPeriodTotal[])
    case 'since':
      return typeof part === 'number' ? new Date(part).toISOString() : part
    case 'oncePer':
      // Versions that don't know it refuse it.
      return part ?? undefined
    default:
      return part
  }
}

function historyFields(history: readonly StoredPeriodTotal[]): object {
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
 * Lines of a stream of bytes that are not blank, without the byte order mark at its beginning. Only a newline ends a line:
 * names may contain other separators that `node:readline` knows.
 *
 * @throws {Error} naming the line that is too long, or is not UTF-8
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<TextLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let line = 0
  let rest: Buffer = Buffer.alloc(0)

  function* decoded(bytes: Buffer): Generator<TextLine> {
    line++
    try {
      const text = decoder.decode(bytes)
      if (text.trim() !== '') yield { line, text: line === 1 ? text.replace(/^\ufeff/, '') : text }
    } catch (cause) {
      const advice = 'save the file as UTF-8, or convert it, for example with iconv -f latin1 -t utf-8'
      throw new Error(`Line ${line}: it is not UTF-8; ${advice}.`, { cause })
    }
  }

  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk])
    let from = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      yield* decoded(bytes.subarray(from, end))
      from = end + 1
    }
    rest = bytes.subarray(from)
    if (rest.length > MAX_LINE) throw new Error(`Line ${line + 1}: it is longer than ${MAX_LINE} bytes.`)
  }
  if (rest.length > 0) yield* decoded(rest)
}
