import type { Connection } from '../mysql/connection.ts'
import { bytes, integer } from '../mysql/sql.ts'
import type { Page } from '../rules/counter.ts'

/** Rows per statement. */
const PAGE = 2000
/** Maximum totals or subjects of a counter, or periods or subjects of a sequence group, in one line. */
const MAX_PARTS = 1000

/** The columns of a unique index, and where a row has their values. */
type IndexOf<Row> = Record<string, keyof Row>

/** All rows that a select finds, a page at a time in the order of an index: each begins after the last row of the one before. */
export async function* rowsOf<Row>(
  connection: Connection,
  index: IndexOf<Row>,
  selection: string,
  condition = 'true',
  size = PAGE,
): AsyncGenerator<Row> {
  let page: Row[] = []
  do {
    const last = page.at(-1)
    page = await connection.select<Row>(
      `${selection}
      where ${condition} and ${last ? isAfter(last, Object.entries(index)) : 'true'}
      order by ${Object.keys(index).join(', ')}
      limit ${size}`,
    )
    yield* page
  } while (page.length === size)
}

/** The condition of the rows after one. Its first part lets the server begin within the index. */
function isAfter<Row>(last: Row, [first, ...rest]: readonly [string, keyof Row][]): string {
  if (!first) return 'false'
  const [column, member] = first
  const at = last[member]
  const value = Buffer.isBuffer(at) ? bytes(at) : integer(Number(at))
  return `${column} >= ${value} and (${column} > ${value} or ${column} = ${value} and ${isAfter(last, rest)})`
}

/** Returns a function that finds the rows of each id, called in the order of the ids. Rows of other ids are skipped. */
export function eachOf<Row extends { id: number }>(
  rows: AsyncGenerator<Row>,
): (id: number) => AsyncGenerator<Row> {
  let row: Row | undefined
  return async function* itemsOf(id) {
    row ??= (await rows.next()).value
    while (row && row.id <= id) {
      if (row.id === id) yield row
      row = (await rows.next()).value
    }
  }
}

/** All items that a list has, a page at a time. */
export async function* itemsOf<Item extends { id: number | string }>(
  list: (page: Page<Item['id']>) => Promise<Item[]>,
  limit = 500,
): AsyncGenerator<Item> {
  let page: Item[] = []
  do {
    page = await list({ after: page.at(-1)?.id, limit, fromEnd: false })
    yield* page
  } while (page.length === limit)
}

/** Divides items into parts of one key, with their indexes; by default what belongs to one name into parts of a line each. */
export async function* partsOf<Item>(
  items: AsyncIterable<Item>,
  size = MAX_PARTS,
  keyOf: (item: Item) => string = () => '',
): AsyncGenerator<[index: number, part: Item[]]> {
  let index = 0
  let part: Item[] = []
  for await (const item of items) {
    const [first = item] = part
    if (part.length === size || keyOf(first) !== keyOf(item)) {
      yield [index++, part]
      part = []
    }
    part.push(item)
  }
  // There is always a first one.
  if (index === 0 || part.length > 0) yield [index, part]
}
