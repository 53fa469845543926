/**
 * An instant as RFC 3339 has it: `2026-11-20T23:02:00.000Z`. The same as `toISOString` in a fifth of the time,
 * which counts where a list has an instant in each item.
 */
export function instantText(at: Date): string {
  const year = at.getUTCFullYear()
  // Others, and dates that are none, have a form of their own.
  if (!(year >= 1000 && year <= 9999)) return at.toISOString()
  const date = `${year}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`
  return `${date}T${time}.${three(at.getUTCMilliseconds())}Z`
}

function two(number: number): string {
  return number < 10 ? `0${number}` : String(number)
}

function three(number: number): string {
  return number < 100 ? `0${two(number)}` : String(number)
}
