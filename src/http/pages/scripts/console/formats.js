// How the console writes numbers, times and rights.

const numbers = new Intl.NumberFormat('en')
const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** Null is no number. */
export function numberText(number) {
  return number === null ? '–' : numbers.format(number)
}

/** In the time zone of the person. */
export function timeText(time, never = 'never') {
  return time === null ? never : times.format(new Date(time))
}

/** What a grant allows: "READ, ADD (up to 5) on names that start with “a” in “shop”", with so many names at most. */
export function grantText({ scopes, namespace, names, prefix, maxDelta, maxCount }, maxNames = 100) {
  const limits = { ADD: maxDelta, NUMBER: maxCount }
  const rights = scopes.map((scope) => (limits[scope] > 1 ? `${scope} (up to ${limits[scope]})` : scope))
  return `${rights.join(', ')} on ${namesText(names, prefix, maxNames)} in ${
    namespace === null ? 'every namespace' : quoted(namespace)
  }`
}

function namesText(names, prefix, maxNames) {
  if (names) {
    const more = names.length > maxNames ? ` and ${names.length - maxNames} more` : ''
    return names.slice(0, maxNames).map(quoted).join(', ') + more
  }
  return prefix === '' ? 'every name' : `names that start with ${quoted(prefix)}`
}

/** A name within a sentence, isolated from its direction as in an element `bdi`. */
export function quoted(name) {
  return `“\u2068${name}\u2069”`
}
