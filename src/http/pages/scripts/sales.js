// What the pages of the shop share: buying a book, and texts about its numbers.

import { askOnce, isInDoubt } from './api.js'
import { setEnabled, setText, withProgress } from './messages.js'

/** If no more copies than this are left, buyers see how many. */
const FEW = 10

const numbers = new Intl.NumberFormat('en')
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' })
const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }

/**
 * Lets a person buy a book, and shows the result beside the button until the next purchase there. The button is enabled
 * once the numbers are known, while copies are left. Returns a function that shows a state of the book's counter.
 */
export function openSale(element, title) {
  const [button, sold, fewLeft, result, problem] = ['button', '.sold', '.left', '.result', '.problem'].map(
    (selector) => element.querySelector(selector),
  )
  /** Copies left; undefined: not known yet. */
  let left
  let isBuying = false
  /** Revision of the state that is shown. */
  let shown = 0

  nameButton('Buy')
  // Counted in the click handler: it runs once for each click.
  button.addEventListener('click', () => {
    if (left > 0 && !isBuying) sell()
  })

  async function sell() {
    isBuying = true
    setText(problem, '')
    try {
      const purchase = await withProgress(result, 'Buying…', () => buy(title))
      setText(result, boughtText(title, purchase))
      // Null if only reading it failed.
      if (purchase.counter) show(purchase.counter)
    } catch (error) {
      setText(result, '')
      setText(problem, problemText(title, error))
    }
    isBuying = false
  }

  /** Shows a state unless a newer one is shown, as answers may arrive out of order. Returns whether it did. */
  function show(counter) {
    if (counter.revision < shown) return false
    shown = counter.revision
    const wasSoldOut = left <= 0
    left = leftOf(counter)
    const isSoldOut = left <= 0
    setText(sold, soldText(counter))
    setText(fewLeft, leftText(left))
    nameButton(isSoldOut ? 'Sold out' : 'Buy')
    setEnabled(button, !isSoldOut)
    // Copies are available again, so that message is outdated.
    if (wasSoldOut && !isSoldOut && problem.textContent === soldOutText(title)) setText(problem, '')
    return true
  }

  function nameButton(text) {
    setText(button, text)
    button.setAttribute('aria-label', `${text} ${title}`)
  }

  return show
}

/** Counts a copy. `value` and `valueIn` are this buyer's own numbers, `counter` is the current state of the book. */
async function buy(title) {
  const { increment } = await askOnce(
    `mutation Buy($title: String!) {
      increment(name: $title, namespace: "booksales") {
        value
        valueIn(period: MONTH)
        appliedDelta
        counter { revision value maxValue }
      }
    }`,
    { title },
  )
  if (increment.appliedDelta > 0) return increment
  // The counter was set to saturate instead of rejecting.
  throw Object.assign(new Error('Sold out'), { code: 'LIMIT_REACHED' })
}

function boughtText(title, { value, valueIn }) {
  const month = valueIn === null ? '' : `, the ${ordinal(valueIn)} this month`
  return `You just bought copy ${numbers.format(value)} of ${title}${month}.`
}

function problemText(title, error) {
  if (error.code === 'LIMIT_REACHED') return soldOutText(title)
  if (isInDoubt(error)) return 'The connection broke: this copy may or may not have been sold.'
  return `Not sold: ${error.message}`
}

function soldOutText(title) {
  return `Not sold: somebody else has bought the last copy of ${title}.`
}

function soldText({ value, maxValue }) {
  if (maxValue !== null) return `${numbers.format(value)} of ${numbers.format(maxValue)} copies sold`
  return copiesText(value, 'sold')
}

export function copiesText(count, rest) {
  return `${numbers.format(count)} ${count === 1 ? 'copy' : 'copies'} ${rest}`
}

/** How many copies are left; infinite if the edition isn't limited. */
function leftOf({ value, maxValue }) {
  return maxValue === null ? Number.POSITIVE_INFINITY : maxValue - value
}

/** Empty when sold out: the button says that. */
function leftText(left) {
  return left > 0 && left <= FEW ? `Only ${left} left` : ''
}

function ordinal(number) {
  return numbers.format(number) + ENDINGS[ordinals.select(number)]
}
