// The text of operations, as a person would write them.

/**
 * A mutation of one field, with its arguments as literals: whoever copies it needs no variables. Arguments that are
 * undefined are left out.
 */
export function mutation(field, args, selection) {
  const present = Object.entries(args).filter(([, value]) => value !== undefined)
  const texts = present.map(([name, value]) => `${name}: ${literal(value)}`)
  const line = texts.join(', ')
  const inside = line.length <= 60 ? line : `\n    ${texts.join('\n    ')}\n  `
  return `mutation {\n  ${field}(${inside}) {\n    ${selection}\n  }\n}`
}

/** A value in GraphQL. A symbol is a value of an enum. */
function literal(value) {
  if (typeof value === 'symbol') return value.description
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, inner]) => `${name}: ${literal(inner)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}
