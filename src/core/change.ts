/** A change of values. Undefined: unchanged; null: reset to the default. */
export type Change<Values> = { [Part in keyof Values]?: Values[Part] | null | undefined }

/** The values after a change. Other properties of the change are ignored. */
export function withChange<Values extends object>(
  present: Values,
  change: Change<Values>,
  defaults: Values,
): Values {
  // `Object.entries` loses the type of the keys.
  const parts = Object.keys(defaults) as (keyof Values)[]
  const valueAfter = (part: keyof Values) =>
    change[part] === undefined ? present[part] : (change[part] ?? defaults[part])
  // Each part has the same type in both.
  return Object.fromEntries(parts.map((part) => [part, valueAfter(part)])) as Values
}
