import { nameFault, textFault } from '../../../core/names.ts'
import type { Entry, Placed } from '../../../core/transfer/entries.ts'
import { type CsvRow, csvLine } from './csv.ts'

/** The columns that an export writes. An import needs `name` and `value`. */
const COLUMNS = ['type', 'namespace', 'name', 'group', 'period', 'value'] as const

type Column = (typeof COLUMNS)[number]

export const CSV_HEADER = csvLine(COLUMNS)

/** The lines of an entry: of a counter its value, of a sequence group the last number of its latest period. */
export function csvLinesOf(entry: Entry): string {
  if (entry.type === 'counter') return csvLine(['counter', entry.namespace, entry.name, '', '', entry.value])
  if (entry.type !== 'sequenceGroup') return ''
  const { namespace, sequence, group, latest } = entry
  const last = latest?.lastValue
  return last == null ? '' : csvLine(['sequenceGroup', namespace, sequence, group, latest?.period ?? 0, last])
}

/**
 * The entries of a CSV file, whose first row names its columns.
 *
 * @throws {Error} naming the line that is wrong
 */
export async function* csvEntries(rows: AsyncIterable<CsvRow>, namespace: string): AsyncGenerator<Placed> {
  let columns: Column[] | undefined
  for await (const { line, cells } of rows) {
    if (!columns) {
      columns = columnsIn(cells)
      continue
    }
    if (cells.length !== columns.length)
      throw new Error(`Line ${line}: ${cells.length} cells, but ${columns.length} columns.`)
    const fields = Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
    yield { line, entry: entryOfFields({ namespace, ...fields }, `Line ${line}`) }
  }
  if (!columns) throw new Error('The file is empty; its first line must name its columns.')
}

type Fields = { [C in Column]?: string | undefined }

/** @throws {Error} that begins with the place if a field is wrong */
export function entryOfFields(fields: Fields, place: string): Entry {
  const { type = 'counter', namespace = '', name = '', group = '', period = '', value = '' } = fields
  for (const [column, text, faultOf] of [
    ['namespace', namespace, nameFault],
    ['name', name, nameFault],
    ['group', group, textFault],
  ] as const) {
    const fault = faultOf(text)
    if (fault) throw new Error(`${place}: ${column} ${fault.message}.`)
  }
  const number = integerIn(value, 'value', place)
  if (type === 'counter') return { type, namespace, name, value: number, history: [] }
  if (type !== 'sequenceGroup') throw new Error(`${place}: type must be counter or sequenceGroup.`)
  const key = period === '' ? 0 : integerIn(period, 'period', place)
  if (key < 0 || key >= 2 ** 32) throw new Error(`${place}: period must be one of an export.`)
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
  const columns = cells.map((cell) => {
    const column = COLUMNS.find((one) => one === cell.trim().toLowerCase())
    if (!column) throw new Error(`Line 1: unknown column "${cell}"; supported: ${COLUMNS.join(', ')}.`)
    return column
  })
  for (const needed of ['name', 'value'] as const)
    if (!columns.includes(needed)) throw new Error(`Line 1: the column ${needed} is missing.`)
  const repeated = columns.find((column, index) => columns.indexOf(column) !== index)
  if (repeated) throw new Error(`Line 1: the column ${repeated} occurs twice.`)
  return columns
}

function integerIn(text: string, column: string, place: string): number {
  const number = /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(number)) return number + 0
  throw new Error(
    `${place}: ${column} must be an integer from -(2^53-1) to 2^53-1; it is "${text.slice(0, 40)}".`,
  )
}
