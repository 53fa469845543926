/** A number with a fraction or an exponent, or something within a text that looks like one. */
const FRACTION = /[:,[\s]-?\d+[.eE]/

/**
 * Numbers, and texts, so that no number is found within one. Each match continues where the last one ended, also in what
 * is no JSON, where the last text may have no end: so the time is linear.
 */
const NUMBERS_AND_TEXTS = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/**
 * JSON with an infinite number in place of each one that `JSON.parse` rounds to an integer although it isn't one, such as
 * 9007199254740990.6: after that nobody could notice, and whoever reads an integer refuses an infinite one. Integers need
 * no such search: those that are rounded are outside of the safe range.
 *
 * Nearly all requests cost the first look only: 0.05 µs for an `increment`, 0.7 ms for 800 kB (Node 20).
 */
export function withoutRounding(json: string): string {
  if (!FRACTION.test(json)) return json
  return json.replace(NUMBERS_AND_TEXTS, (token) => {
    const isRounded = !token.startsWith('"') && Number.isInteger(Number(token)) && !isInteger(token)
    return isRounded ? '1e999' : token
  })
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
