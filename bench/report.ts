/** A table as Markdown. All columns but the first are of numbers. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join(
    '\n',
  )
}

/** Returns the median of some values; NaN if there are none. */
export function medianOf(values: readonly number[]): number {
  const inOrder = values.toSorted((a, b) => a - b)
  const middle = (inOrder.length - 1) / 2
  const [low = Number.NaN, high = Number.NaN] = [inOrder[Math.floor(middle)], inOrder[Math.ceil(middle)]]
  return (low + high) / 2
}
