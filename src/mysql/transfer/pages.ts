import { MAX_PARTS } from '../../rules/entries.ts'

/** Rows per statement of an export. */
export const PAGE = 2000

/** All rows of a select, a page at a time: each begins after the last row of the one before. */
export async function* rowsOf<Row>(
  read: (after: Row | undefined) => Promise<Row[]>,
  size = PAGE,
): AsyncGenerator<Row> {
  let page: Row[] = []
  do {
    page = await read(page.at(-1))
    yield* page
  } while (page.length === size)
}

/** Returns a function that finds the rows of each id, called in the order of the ids. Rows of other ids are skipped. */
export function eachOf<Row extends { id: number }, Item>(
  rows: AsyncGenerator<Row>,
  itemIn: (row: Row) => Item,
): (id: number) => AsyncGenerator<Item> {
  let row: Row | undefined
  return async function* itemsOf(id) {
    row ??= (await rows.next()).value
    while (row && row.id <= id) {
      if (row.id === id) yield itemIn(row)
      row = (await rows.next()).value
    }
  }
}

/** Divides what belongs to one name into parts of a line each. There is always a first one. */
export async function* partsOf<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item[]> {
  let part: Item[] = []
  let isFirst = true
  for await (const item of items) {
    part.push(item)
    if (part.length < MAX_PARTS) continue
    yield part
    part = []
    isFirst = false
  }
  if (isFirst || part.length > 0) yield part
}
