// What the pages of the shop share: buying a book, and texts about its numbers.

import { askOnce, isInDoubt } from './api.js'
import { say, setEnabled, withProgress } from './messages.js'

/** From so few copies on, a buyer is told how many are left. */
const FEW = 10

const numbers = new Intl.NumberFormat('en')
const ordinals = new Intl.PluralRules('en', { type: 'ordinal' })
const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }

/**
 * Lets a person buy a book, and shows the result beside the button until the next purchase there. The button is enabled
 * once the numbers are known, while copies are left.
 */
export function openSale(place, title, whenAnswered = () => undefined) {
  const [button, sold, fewLeft, bought, trouble] = ['button', '.sold', '.left', '.bought', '.trouble'].map(
    (selector) => place.querySelector(selector),
  )
  /** Copies left; undefined: not known yet. */
  let left
  let isBuying = false
  /** Counts answers to purchases, so that numbers requested before one are not shown after it. */
  let answers = 0

  nameButton('Buy')
  // Counting belongs here, in what the person does: it happens once for each click.
  button.addEventListener('click', () => {
    if (left > 0 && !isBuying) sell()
  })

  async function sell() {
    isBuying = true
    say(trouble, '')
    try {
      const sales = await withProgress(bought, 'Buying…', () => buy(title))
      say(bought, boughtText(title, sales))
      show(sales)
    } catch (error) {
      say(bought, '')
      say(trouble, troubleText(title, error))
      if (error.code === 'LIMIT_REACHED') show({ sold: error.value, copies: error.limit })
    }
    answers += 1
    isBuying = false
    whenAnswered()
  }

  function show(sales) {
    const wasSoldOut = left <= 0
    left = leftOf(sales)
    const isSoldOut = left <= 0
    say(sold, soldText(sales))
    say(fewLeft, leftText(left))
    nameButton(isSoldOut ? 'Sold out' : 'Buy')
    setEnabled(button, !isSoldOut)
    // There are copies again, so an error about the last one is over.
    if (wasSoldOut && !isSoldOut) say(trouble, '')
  }

  function nameButton(text) {
    say(button, text)
    button.setAttribute('aria-label', `${text} ${title}`)
  }

  return {
    /** To be called before a read; returns what shows its numbers, unless a purchase was answered in the meantime. */
    beginReading() {
      const before = answers
      return (sales) => {
        if (answers === before) show(sales)
      }
    },
  }
}

/** Counts a copy. The answer is this buyer's own number, so nothing has to be read before or after. */
async function buy(title) {
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

function boughtText(title, { sold, soldThisMonth }) {
  const month = soldThisMonth === null ? '' : `, the ${ordinal(soldThisMonth)} this month`
  return `You just bought copy ${numbers.format(sold)} of ${title}${month}.`
}

function troubleText(title, error) {
  if (error.code === 'LIMIT_REACHED') return `Not sold: somebody else has bought the last copy of ${title}.`
  if (isInDoubt(error)) return 'The connection broke: this copy may or may not have been sold.'
  return `Not sold: ${error.message}`
}

function soldText({ sold, copies }) {
  if (copies != null) return `${numbers.format(sold)} of ${numbers.format(copies)} copies sold`
  return copiesText(sold, 'sold')
}

export function copiesText(count, rest) {
  return `${numbers.format(count)} ${count === 1 ? 'copy' : 'copies'} ${rest}`
}

/** How many copies are left, if there are only so many. */
function leftOf({ sold, copies }) {
  return copies == null ? Number.POSITIVE_INFINITY : copies - sold
}

/** Empty when sold out: the button says that. */
function leftText(left) {
  return left > 0 && left <= FEW ? `Only ${left} left` : ''
}

function ordinal(number) {
  return numbers.format(number) + ENDINGS[ordinals.select(number)]
}
