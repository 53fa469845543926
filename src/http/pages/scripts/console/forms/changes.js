// What a person changed in a form.

/**
 * The members of `read()` that differ from what they were at first, so that a definition's other fields stay as they
 * are, also if somebody else has changed them meanwhile. Returns a function for the changes, and one that starts anew.
 */
export function trackChanges(read) {
  let before = textsOf(read())
  return {
    changes: () => {
      const now = read()
      const texts = textsOf(now)
      return Object.fromEntries(Object.entries(now).filter(([name]) => texts[name] !== before[name]))
    },
    restart() {
      before = textsOf(read())
    },
  }
}

function textsOf(values) {
  const symbols = (_, value) => (typeof value === 'symbol' ? value.description : value)
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, JSON.stringify(value, symbols)]),
  )
}
