/**
 * One statement for keys of any number of parents: a `select` for the keys of each, joined by `union all`.
 * A parent of its own in each `select` lets the server find the keys by index, which it doesn't do for
 * `(parent, name) in (…)` over two tables.
 */
export function selectByParent<Key>(
  keys: readonly Key[],
  parentOf: (key: Key) => string,
  select: (siblings: [Key, ...Key[]]) => string,
): string {
  const families = new Map<string, [Key, ...Key[]]>()
  for (const key of keys) {
    const siblings = families.get(parentOf(key))
    if (siblings) siblings.push(key)
    else families.set(parentOf(key), [key])
  }
  return [...families.values()].map(select).join('\nunion all\n')
}
