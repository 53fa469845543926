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
import { withoutRounding } from '../rules/jsonNumbers.ts'
import { faultAt, nameFault, textFault } from '../rules/names.ts'

/** The columns that an export writes. An import needs `name` and `value`. */
const COLUMNS = ['type', 'namespace', 'name', 'group', 'period', 'value'] as const

type Column = (typeof COLUMNS)[number]

/**
 * Where a spreadsheet takes a name for a formula: at its start, or after a semicolon, at which spreadsheets of many countries
 * begin a new cell. An apostrophe keeps it from that, as OWASP advises (CSV Injection). Existing apostrophes are part of the
 * name.
 */
const FORMULA = /(^|;)('*[=+\-@＝＋－＠])/g
const ESCAPED_FORMULA = /(^|;)'('*[=+\-@＝＋－＠])/g

/**
 * Entries as CSV: of a counter its value, of a sequence group the last number in each of its periods. No spreadsheet takes
 * a name for a formula.
 */
export async function* csvTexts(entries: AsyncIterable<Entry>): AsyncGenerator<string> {
  yield csvLine(COLUMNS)
  for await (const entry of entries) {
    if (entry.type === 'counter')
      yield csvLine([entry.type, escaped(entry.namespace), escaped(entry.name), '', '', entry.value])
    if (!('periods' in entry && 'group' in entry)) continue
    const names = [entry.namespace, entry.sequence, entry.group].map(escaped)
    for (const { period, lastValue } of entry.periods)
      if (lastValue !== null) yield csvLine(['sequenceGroup', ...names, period, lastValue])
  }
}

function escaped(name: string): string {
  return name.replace(FORMULA, "$1'$2")
}

/** A line of CSV as RFC 4180 has it. Cells with spaces at an end, which some programs remove, are quoted, too. */
function csvLine(cells: readonly (string | number)[]): string {
  const quoted = cells.map((cell) => {
    const text = String(cell)
    return /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  })
  return `${quoted.join(',')}\r\n`
}

/**
 * The entries of a CSV file, whose first line names its columns, and what is wrong with some of its lines. Spreadsheets also
 * separate cells by semicolons or tabs, and may name the separator in a line before: `sep=;`.
 *
 * @throws {Error} if it has no rows
 */
export async function* csvEntries(
  lines: AsyncIterable<TextLine>,
  namespace: string,
): AsyncGenerator<Placed | LineFault> {
  let separator: string | undefined
  let entryIn: ((row: string) => Entry) | undefined
  let isEmpty = true
  for await (const { line, text } of lines) {
    const row = text.replace(/\r$/, '')
    try {
      const named = entryIn || separator ? undefined : /^"?sep=([,;\t])"?$/.exec(row)
      if (named) separator = named[1]
      else if (entryIn) {
        isEmpty = false
        yield { line, entry: entryIn(row) }
      } else entryIn = readerOf(row, separator ?? /[,;\t]/.exec(row)?.[0] ?? ',', namespace)
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
function readerOf(header: string, separator: string, namespace: string): (row: string) => Entry {
  const cellsIn = cellReader(separator)
  const columns = columnsIn(cellsIn(header))
  return (row) => {
    const cells = cellsIn(row)
    if (cells.length !== columns.length)
      throw new Error(`${cells.length} cells, but ${columns.length} columns`)
    const fields = columns.map((column, index) => [
      column,
      (cells[index] ?? '').replace(ESCAPED_FORMULA, '$1$2'),
    ])
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

function columnsIn(cells: readonly string[]): Column[] {
  const names = cells.map((cell) => {
    const name = cell.trim().toLowerCase()
    const column = COLUMNS.find((column) => column === name)
    if (!column) throw new Error(`unknown column "${name}"; supported: ${COLUMNS.join(', ')}`)
    return column
  })
  for (const needed of ['name', 'value'] as const)
    if (!names.includes(needed)) throw new Error(`the column ${needed} is missing`)
  const repeated = names.find((column, index) => names.indexOf(column) !== index)
  if (repeated) throw new Error(`the column ${repeated} occurs twice`)
  return names
}

function integerIn(text: string, column: string): number {
  const number = /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(number)) return number + 0
  throw new Error(`${column} must be an integer from -(2^53-1) to 2^53-1; it is "${text.slice(0, 40)}"`)
}

/** Maximum length of a row, in characters: many times the length of the longest names. */
const MAX_ROW = 2 ** 16

/**
 * Returns a function that reads the cells of a row as RFC 4180 has them, except that none contains a line break, as no name
 * does: so whatever is wrong with a row is known within its line. It throws an error saying what is wrong.
 */
function cellReader(separator: string): (row: string) => string[] {
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}]*))(${separator}|$)`, 'y')
  return (row) => {
    if (row.length > MAX_ROW) throw new Error(`it is longer than ${MAX_ROW} characters`)
    if (row.includes('\r')) throw new Error('it contains a CR; lines must end with LF or CR LF')
    if (!row.includes('"')) return row.split(separator)
    const cells: string[] = []
    cell.lastIndex = 0
    for (let end: string | undefined = separator; end !== ''; ) {
      const [, quoted, plain = '', after] = cell.exec(row) ?? []
      if (after === undefined)
        throw new Error('a quote is not closed, is not doubled, or does not enclose the whole cell')
      cells.push(quoted?.replaceAll('""', '"') ?? plain)
      end = after
    }
    return cells
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
  if (withoutRounding(text) !== text) throw new Error('it has a number that is not an integer')
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
    case 'hasHolds':
      return part || undefined
    case 'maxIn':
      return Array.isArray(part) && part.length > 0 ? part : undefined
    default:
      return part
  }
}

function historyFields(history: readonly StoredPeriodTotal[]): object {
  const periods = PERIODS.flatMap((period) => {
    const totals = history.filter((total) => total.period === period).toSorted((a, b) => a.start - b.start)
    return totals.length > 0 ? [[period, totals.map(totalFields)] as const] : []
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

/** Maximum length of a line, in bytes: many times the length of a counter with a thousand totals. */
const MAX_LINE = 16 * 2 ** 20
/** Maximum number of blank lines: a file of nothing else would take minutes. */
const MAX_BLANK = 1_000_000
const NEWLINE = 0x0a

/**
 * Lines of a stream of bytes that are not blank, without the byte order mark at its beginning. Only a newline ends a line:
 * names may contain other separators that `node:readline` knows.
 *
 * @throws {Error} naming the line that is too long, or is not UTF-8; or if too many are blank
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<TextLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let [line, blank] = [0, 0]
  let rest: Buffer = Buffer.alloc(0)

  /** Undefined: it is blank. */
  function decoded(bytes: Buffer): TextLine | undefined {
    line++
    try {
      const text = decoder.decode(bytes)
      if (text.trim() !== '') return { line, text: line === 1 ? text.replace(/^\ufeff/, '') : text }
    } catch (cause) {
      const advice = 'save the file as UTF-8, or convert it, for example with iconv -f latin1 -t utf-8'
      throw new Error(`Line ${line}: it is not UTF-8; ${advice}.`, { cause })
    }
    if (++blank > MAX_BLANK) throw new Error(`Line ${line}: more than ${MAX_BLANK} lines are blank.`)
    return undefined
  }

  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk])
    let from = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      const text = decoded(bytes.subarray(from, end))
      if (text) yield text
      from = end + 1
    }
    rest = bytes.subarray(from)
    if (rest.length > MAX_LINE) throw new Error(`Line ${line + 1}: it is longer than ${MAX_LINE} bytes.`)
  }
  const last = rest.length > 0 ? decoded(rest) : undefined
  if (last) yield last
}
