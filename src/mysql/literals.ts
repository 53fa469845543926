/** Literals in SQL text, all made of digits: no name can end one, under any `sql_mode` or character set. */

export function integer(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a safe integer`)
  // Also turns -0 into 0.
  return String(value)
}

/** Bytes, or a text as its UTF-8 bytes. */
export function bytes(value: string | Buffer): string {
  const buffer = typeof value === 'string' ? Buffer.from(value, 'utf8') : value
  return `x'${buffer.toString('hex')}'`
}

export function orNull<Value>(value: Value | null, literalOf: (value: Value) => string): string {
  return value === null ? 'null' : literalOf(value)
}

/** A list for `in (…)` or `values …`, of at least one item. */
export function list<Item>(items: readonly Item[], literalOf: (item: Item) => string): string {
  return items.map(literalOf).join(', ')
}

const SHA256 = /^[0-9a-f]{64}$/

/** A SHA-256 hash in hexadecimal digits. */
export function digest(hash: string): string {
  if (!SHA256.test(hash)) throw new RangeError(`${hash} is not a SHA-256 hash`)
  return `x'${hash}'`
}

/** 1970: `never`, in a column without nulls. */
export const EPOCH = '19700101000000'

/** A UTC instant, or milliseconds since 1970, for a `datetime(3)`: `20261120230200.123`. */
export function instant(at: Date | number): string {
  const date = typeof at === 'number' ? new Date(at) : at
  const digits = date.toISOString().replace(/\D/g, '')
  return `${digits.slice(0, 14)}.${digits.slice(14)}`
}
