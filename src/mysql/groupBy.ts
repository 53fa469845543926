/** Groups values by a key, in the order of each group's first value. */
export function groupBy<Key, Value>(
  values: readonly Value[],
  keyOf: (value: Value) => Key,
): Map<Key, [Value, ...Value[]]> {
  const groups = new Map<Key, [Value, ...Value[]]>()
  for (const value of values) {
    const group = groups.get(keyOf(value))
    if (group) group.push(value)
    else groups.set(keyOf(value), [value])
  }
  return groups
}
