// What the pages of the shop share: asking the API, buying, and saying numbers.

/** From so few copies on, a buyer is told how many are left. */
const FEW = 10

const numbers = new Intl.NumberFormat('en')
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' })
const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }

/** Sends an operation to the API and returns its data. */
export async function ask(query, variables, headers = {}) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = await response.json()
  if (errors) throw Object.assign(new Error(errors[0].message), errors[0].extensions)
  return data
}

/**
 * Counts a copy. The answer is this buyer's own number, so nothing has to be read before or after. The key says
 * which purchase it is: so it can be sent again when an answer was lost, and is still counted once.
 */
export async function buy(title) {
  const key = crypto.getRandomValues(new Uint32Array(4)).join('-')
  for (let waitMs = 250; ; waitMs *= 2) {
    try {
      const { increment } = await ask(
        `mutation Buy($title: String!) {
          increment(name: $title, namespace: "booksales") {
            value
            valueIn(period: MONTH)
            appliedDelta
            counter { maxValue }
          }
        }`,
        { title },
        { 'Idempotency-Key': key },
      )
      const copies = increment.counter?.maxValue
      if (increment.appliedDelta > 0)
        return { sold: increment.value, soldThisMonth: increment.valueIn, copies }
      // Somebody has had the edition saturate rather than refuse.
      throw Object.assign(new Error('Sold out'), {
        code: 'LIMIT_REACHED',
        value: increment.value,
        limit: copies,
      })
    } catch (error) {
      // Without a code there was no answer at all.
      const mayRepeat = error.retryable || !error.code
      if (!mayRepeat || waitMs > 4000) throw error
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
}

export function boughtText(title, { sold, soldThisMonth }) {
  const month = soldThisMonth === null ? '' : `, the ${ordinal(soldThisMonth)} this month`
  return `You just bought copy ${numbers.format(sold)} of ${title}${month}.`
}

export function troubleText(title, { code, message }) {
  if (code === 'LIMIT_REACHED') return `Not sold: somebody else has bought the last copy of ${title}.`
  return code === 'OUTCOME_UNKNOWN' || !code
    ? 'The connection broke: this copy may or may not have been sold.'
    : `Not sold: ${message}`
}

export function soldText({ sold, copies }) {
  if (copies != null) return `${numbers.format(sold)} of ${numbers.format(copies)} copies sold`
  return copiesText(sold, 'sold')
}

export function copiesText(count, rest) {
  return `${numbers.format(count)} ${count === 1 ? 'copy' : 'copies'} ${rest}`
}

/** How many copies are left, if there are only so many. */
export function leftOf({ sold, copies }) {
  return copies == null ? Number.POSITIVE_INFINITY : copies - sold
}

export function leftText(left) {
  if (left > FEW) return ''
  return left > 0 ? `Only ${left} left` : 'Sold out'
}

/** Keeps what a page shows fresh while somebody looks at it. */
export function keepFresh(refresh) {
  const again = async () => {
    if (!document.hidden) await refresh()
    setTimeout(again, 2000)
  }
  document.addEventListener('visibilitychange', () => document.hidden || refresh())
  again()
}

function ordinal(number) {
  return numbers.format(number) + ENDINGS[ordinals.select(number)]
}
