/** A row of a CSV file, and the line in which it begins, from 1. */
export interface CsvRow {
  line: number
  cells: string[]
}

/** Cells that must be quoted: with a separator, or with spaces at an end, which some programs remove. */
const SPECIAL = /[",\r\n]|^\s|\s$/

export function csvLine(cells: readonly (string | number)[]): string {
  return `${cells.map((cell) => quoted(String(cell))).join(',')}\r\n`
}

function quoted(cell: string): string {
  return SPECIAL.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** Where a parser is: before a cell, in one without or with quotes, or after a quote in one with quotes. */
type State = 'start' | 'plain' | 'quoted' | 'quote'

/** Maximum length of a row, in characters. */
const MAX_ROW = 2 ** 20

/**
 * Rows of CSV text as RFC 4180 has them; lines may end with CR LF or LF. Empty lines are skipped.
 *
 * @throws {Error} naming the line in which quotes are wrong
 */
export async function* csvRows(texts: AsyncIterable<string>): AsyncGenerator<CsvRow> {
  let state: State = 'start'
  let line = 1
  let row: CsvRow = { line, cells: [] }
  let cell = ''
  let length = 0
  let isReturn = false

  function endCell(): void {
    row.cells.push(cell)
    cell = ''
    state = 'start'
  }

  function endRow(): CsvRow | undefined {
    const isEmpty = row.cells.length === 0 && cell === '' && state === 'start'
    if (!isEmpty) endCell()
    const ended = row
    row = { line: line + 1, cells: [] }
    length = 0
    return isEmpty ? undefined : ended
  }

  for await (const text of texts) {
    for (const character of text) {
      if (++length > MAX_ROW) throw new Error(`Line ${row.line}: the row does not end.`)
      if (state === 'quoted') {
        if (character === '"') state = 'quote'
        else cell += character
        if (character === '\n') line++
        continue
      }
      if (isReturn && character !== '\n') throw new Error(`Line ${line}: a CR without LF.`)
      isReturn = character === '\r'
      if (isReturn) continue
      if (character === '\n') {
        const ended = endRow()
        line++
        if (ended) yield ended
      } else if (character === ',') endCell()
      else if (character === '"' && state !== 'plain') {
        // Two quotes within quotes are one.
        if (state === 'quote') cell += '"'
        state = 'quoted'
      } else if (state === 'quote') throw new Error(`Line ${line}: text after a quoted cell.`)
      else {
        if (character === '"') throw new Error(`Line ${line}: a quote within a cell that has none around it.`)
        cell += character
        state = 'plain'
      }
    }
  }
  if (state === 'quoted') throw new Error(`Line ${row.line}: a quote is not closed.`)
  const ended = endRow()
  if (ended) yield ended
}
