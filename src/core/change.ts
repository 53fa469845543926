/** A change of some values. Undefined: unchanged; null: reset to the default. */
export type Change<T> = { [Part in keyof T]?: T[Part] | null | undefined }

/** The values after a change. Other properties of the change are ignored. */
export function withChange<T extends object>(present: T, change: Change<T>, defaults: T): T {
  const valueAfter = (part: keyof T) =>
    change[part] === undefined ? present[part] : (change[part] ?? defaults[part])
  // `Object.keys` loses the type of the keys, and `Object.fromEntries` that of their values.
  const parts = Object.keys(defaults) as (keyof T)[]
  return Object.fromEntries(parts.map((part) => [part, valueAfter(part)])) as T
}
