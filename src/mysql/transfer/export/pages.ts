/** Rows per statement of an export. */
export const PAGE = 2000

/** All rows of a select, a page at a time: each begins after the last row of the one before. */
export async function* pagesOf<Row>(
  read: (after: Row | undefined) => Promise<Row[]>,
  size: number,
): AsyncGenerator<[Row, ...Row[]]> {
  let last: Row | undefined
  while (true) {
    const rows = await read(last)
    const [first, ...others] = rows
    if (!first) return
    yield [first, ...others]
    if (rows.length < size) return
    last = rows.at(-1)
  }
}

/** Returns a function that reads the rows of each id, called in the order of the ids. Rows of other ids are skipped. */
export function rowsOfEach<Row extends { id: number }>(pages: AsyncGenerator<Row[]>) {
  let page: Row[] = []
  let index = 0
  return async function* rowsOf(id: number): AsyncGenerator<Row> {
    while (true) {
      if (index === page.length) {
        page = (await pages.next()).value ?? []
        index = 0
        if (page.length === 0) return
      }
      const row = page[index]
      if (!row || row.id > id) return
      index++
      if (row.id === id) yield row
    }
  }
}
