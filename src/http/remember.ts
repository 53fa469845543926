/** How many texts are remembered, and how long they may be: a caller chooses them. */
const MOST = 256
const LONGEST = 256

/** The same function, which remembers what it gave for the texts of late: for headers, of which few differ. */
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
