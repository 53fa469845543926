/**
 * One statement for keys of any number of parents: one `select` per parent, joined by `union all`. With a single parent
 * in each `select` the server finds the keys by index, which it doesn't do for `(parent, name) in (…)` over two tables.
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
