/** Maximum number and length of the cached texts: a client chooses them. */
const MOST = 256
const LONGEST = 256

/** Caches the results of a function for recent texts: for headers, which rarely differ. */
export function remember<Value>(compute: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, { value: Value }>()
  return (text) => {
    const found = known.get(text)
    if (found) return found.value
    const value = compute(text)
    if (known.size >= MOST) known.clear()
    if (text.length <= LONGEST) known.set(text, { value })
    return value
  }
}
