// A book on sale: how many copies were sold, a button to buy one, and what came of it.

import { useReducer } from 'preact/hooks'
import { newer } from '/client.js'
import { amount, client, html, number, Outcome, ordinal, useAction } from './page.js'

/** If no more copies than this are left, buyers see how many. */
const FEW = 10

/** What pages show of a book. */
export const FIELDS = 'id name revision value maxValue'

/** The newest known states of books by title, and a function that takes states: answers may arrive out of order. */
export function useBooks() {
  return useReducer((books, states) => {
    const next = { ...books }
    // Null: the key is not for this book.
    for (const state of states.filter(Boolean)) next[state.name] = newer(next[state.name], state)
    return next
  }, {})
}

/**
 * Counts a copy. `value` and `valueIn` are this buyer's own numbers, `counter` is the current state of the book. The
 * client remembers the key, so that calling this again after a lost answer, also after a reload, buys no second copy.
 */
async function buy(title, show, fields) {
  const { increment } = await client.mutate(
    `mutation Buy($title: String!) {
      increment(name: $title, namespace: "booksales") {
        value
        valueIn(period: MONTH)
        appliedDelta
        counter { ${fields} }
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

/**
 * A purchase of a book, as `useAction` has it; `onBought` gets the copy. `fields` is all that the page shows of the book,
 * so that an event from before shows nothing.
 */
export function usePurchase({ title, book, show, fields = FIELDS, onBought }) {
  const action = useAction(async () => {
    try {
      const copy = await buy(title, show, fields)
      onBought?.(copy)
      return copy
    } catch (error) {
      if (error.code !== 'LIMIT_REACHED') throw error
      // This state is older than what the next event has.
      if (book) show([{ ...book, value: book.maxValue ?? book.value }])
      const message = `somebody else has bought the last copy of ${title}.`
      throw Object.assign(error, { message })
    }
  }, nameOf(title))
  // Copies are available again, so that message is outdated.
  if (action.error?.code === 'LIMIT_REACHED' && leftOf(book) > 0) return { ...action, error: undefined }
  return action
}

/** What a person reads and presses in the shop, and on the page of a book. */
export function Sale({ month, children, ...sale }) {
  const { title, book } = sale
  const purchase = usePurchase(sale)
  const left = leftOf(book)
  const label = left <= 0 ? 'Sold out' : 'Buy'
  return html`
    <div class="text">
      ${children}
      <p class="stock"><span class="sold">${book && soldText(book)}</span> <strong class="left">${left > 0 && left <= FEW && `Only ${left} left`}</strong></p>
      ${month !== undefined && html`<p class="stock month">${month}</p>`}
      <${Bought} title=${title} purchase=${purchase} />
    </div>
    <button class="buy" aria-label=${`${label} ${title}`} aria-disabled=${!(left > 0)} onClick=${() => left > 0 && purchase.start()}>${label}</button>`
}

export function Bought({ title, purchase }) {
  const text = ({ value, valueIn }) =>
    `You just bought copy ${number(value)} of ${title}${valueIn === null ? '' : `, the ${ordinal(valueIn)} this month`}.`
  return html`<${Outcome} action=${purchase} on=${title} busy="Buying…" text=${text} failed="Not sold" doubt="The connection broke: this copy may or may not have been sold." />`
}

const soldText = ({ value, maxValue }) =>
  maxValue === null ? `${copies(value)} sold` : `${number(value)} of ${number(maxValue)} copies sold`

export const copies = (count) => amount(count, 'copy', 'copies')

/** How many copies are left; infinite if the edition isn't limited, undefined if nothing is known yet. */
function leftOf(book) {
  if (!book) return undefined
  return book.maxValue === null ? Number.POSITIVE_INFINITY : book.maxValue - book.value
}
