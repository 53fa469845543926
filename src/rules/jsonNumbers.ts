/** A number with a fraction or an exponent, or something within a text that looks like one. */
const FRACTION = /[:,[\s]-?\d+[.eE]/

/**
 * Numbers, and texts, so that no number is found within one. Each match continues where the last one ended, also in what
 * is no JSON, where the last text may have no end: so the time is linear.
 */
const NUMBERS_AND_TEXTS = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/**
 * Finds a number in JSON that `JSON.parse` rounds to an integer although it isn't one, such as 9007199254740990.6. After
 * that nobody could notice. Integers need no such search: those that are rounded are outside of the safe range.
 *
 * Nearly all requests cost the first look only: 0.05 µs for an `increment`, 0.7 ms for 800 kB (Node 20).
 */
export function roundedNumber(json: string): string | undefined {
  if (!FRACTION.test(json)) return undefined
  for (const [token] of json.matchAll(NUMBERS_AND_TEXTS)) {
    if (!token.startsWith('"') && Number.isInteger(Number(token)) && !isInteger(token)) return token
  }
  return undefined
}

/** Whether a number in JSON is exactly an integer, such as 1.50e1. */
function isInteger(token: string): boolean {
  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = whole + fraction
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end -= 1
  return end === 0 || digits.length - end >= fraction.length - Number(exponent)
}
