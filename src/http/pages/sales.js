// What the pages of the shop share: buying, and saying numbers.

import { askOnce } from './api.js'

/** From so few copies on, a buyer is told how many are left. */
const FEW = 10

const numbers = new Intl.NumberFormat('en')
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' })
const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }

/** Counts a copy. The answer is this buyer's own number, so nothing has to be read before or after. */
export async function buy(title) {
  const { increment } = await askOnce(
    `mutation Buy($title: String!) {
      increment(name: $title, namespace: "booksales") {
        value
        valueIn(period: MONTH)
        appliedDelta
        counter { maxValue }
      }
    }`,
    { title },
  )
  const copies = increment.counter?.maxValue
  if (increment.appliedDelta > 0) {
    return { sold: increment.value, soldThisMonth: increment.valueIn, copies }
  }
  // Somebody has had the edition saturate rather than refuse.
  throw Object.assign(new Error('Sold out'), { code: 'LIMIT_REACHED', value: increment.value, limit: copies })
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

function ordinal(number) {
  return numbers.format(number) + ENDINGS[ordinals.select(number)]
}
