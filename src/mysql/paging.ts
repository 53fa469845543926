import type { PageByName } from '../core/counters/pages.ts'
import { bytes, integer } from './literals.ts'

/** Conditions on the names of a page and those behind it. */
export function onPage(column: string, { prefix, after, before }: PageByName): string[] {
  return [
    ...(prefix === '' ? [] : [`${column} >= ${bytes(prefix)}`, `${column} < ${pastPrefix(prefix)}`]),
    ...(after === undefined ? [] : [`${column} > ${bytes(after)}`]),
    ...(before === undefined ? [] : [`${column} < ${bytes(before)}`]),
  ]
}

/** Order and limit of a page. */
export function pageOf(column: string, { limit, fromEnd }: PageByName): string {
  return `order by ${column} ${fromEnd ? 'desc' : 'asc'}
      limit ${integer(limit)}`
}

/** The first text after all that begin with `prefix`. No byte of UTF-8 is 255, so the last one can be incremented. */
function pastPrefix(prefix: string): string {
  const end = Buffer.from(prefix, 'utf8')
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1
  return `x'${end.toString('hex')}'`
}
