// A book on sale: how many copies were sold, a button to buy one, and what came of it.

import { useReducer } from 'preact/hooks'
import { newer } from '/client.js'
import { amount, client, html, isInDoubt, number, ordinal, useAction } from './page.js'

/** If no more copies than this are left, buyers see how many. */
const FEW = 10

/** The newest known states of books by title, and a function that takes states: answers may arrive out of order. */
export function useBooks() {
  return useReducer((books, states) => {
    const next = { ...books }
    for (const state of states) next[state.name] = newer(next[state.name], state)
    return next
  }, {})
}

/**
 * Counts a copy. `value` and `valueIn` are this buyer's own numbers, `counter` is the current state of the book. The
 * client remembers the key, so that calling this again after a lost answer, also after a reload, buys no second copy.
 */
async function buy(title, show) {
  const { increment } = await client.mutate(
    `mutation Buy($title: String!) {
      increment(name: $title, namespace: "booksales") {
        value
        valueIn(period: MONTH)
        appliedDelta
        counter { name revision value maxValue }
      }
    }`,
    { title },
    { remember: nameOf(title) },
  )
  // Null if only reading it failed.
  if (increment.counter) show([increment.counter])
  if (increment.appliedDelta > 0) return increment
  // The counter was set to saturate instead of rejecting.
  throw Object.assign(new Error('Sold out'), { code: 'LIMIT_REACHED' })
}

const nameOf = (title) => `buy ${title}`

/** A purchase of a book, as `useAction` has it; `onBought` gets the copy. */
export function usePurchase(title, book, show, onBought) {
  async function purchase() {
    try {
      const copy = await buy(title, show)
      onBought?.(copy)
      return copy
    } catch (error) {
      // Whoever bought the last copy: this state is older than what the next event has.
      if (error.code === 'LIMIT_REACHED' && book) show([{ ...book, value: book.maxValue ?? book.value }])
      throw error
    }
  }
  return useAction(purchase, nameOf(title))
}

/** What a person reads and presses in the shop, and on the page of a book. */
export function Sale({ title, book, show, children }) {
  const purchase = usePurchase(title, book, show)
  const left = leftOf(book)
  const isSoldOut = left <= 0
  const label = isSoldOut ? 'Sold out' : 'Buy'
  return html`
    <div class="text">
      ${children}
      <p class="stock"><span class="sold">${book && soldText(book)}</span> <strong class="left">${left > 0 && left <= FEW && `Only ${left} left`}</strong></p>
      <${Outcome} title=${title} purchase=${purchase} isSoldOut=${isSoldOut} />
    </div>
    <button class="buy" aria-label=${`${label} ${title}`} aria-disabled=${!(left > 0)} onClick=${() => left > 0 && purchase.start()}>${label}</button>`
}

/** What came of a purchase. A copy that may have been sold can be asked for again. */
export function Outcome({ title, purchase, isSoldOut }) {
  const { result, isLong, isUnanswered, start } = purchase
  const retry = ({ currentTarget }) => {
    // Now, as the button disappears with the answer, which may not move the focus.
    currentTarget.closest('.sale').querySelector('.buy').focus()
    start()
  }
  return html`
    <p class="result" role="status">${isLong ? 'Buying…' : result && boughtText(title, result)}</p>
    <p class="problem" role="alert">${problemText(title, purchase, isSoldOut)}</p>
    ${isUnanswered && html`<button class="link" aria-label=${`Try again: ${title}`} onClick=${retry}>Try again</button>`}`
}

function boughtText(title, { value, valueIn }) {
  const month = valueIn === null ? '' : `, the ${ordinal(valueIn)} this month`
  return `You just bought copy ${number(value)} of ${title}${month}.`
}

function problemText(title, { error, isUnanswered }, isSoldOut) {
  if (error?.code === 'LIMIT_REACHED')
    return isSoldOut && `Not sold: somebody else has bought the last copy of ${title}.`
  if (isUnanswered || (error && isInDoubt(error)))
    return 'The connection broke: this copy may or may not have been sold.'
  return error && `Not sold: ${error.message}`
}

function soldText({ value, maxValue }) {
  if (maxValue !== null) return `${number(value)} of ${number(maxValue)} copies sold`
  return `${copies(value)} sold`
}

export const copies = (count) => amount(count, 'copy', 'copies')

/** How many copies are left; infinite if the edition isn't limited, undefined if nothing is known yet. */
function leftOf(book) {
  if (!book) return undefined
  return book.maxValue === null ? Number.POSITIVE_INFINITY : book.maxValue - book.value
}
