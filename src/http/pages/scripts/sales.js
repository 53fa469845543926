// A book on sale: how many copies were sold, a button to buy one, and what came of it.

import { amount, client, html, number, Outcome, ordinal, useAction } from './page.js'

/** A book in a limited edition. */
export const edition = { title: 'Red Horse Hill, signed', copies: 100 }

export const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
]

/** If no more copies than this are left, buyers see how many. */
const FEW = 10

const FIELDS = 'id name revision value maxValue'

/** How many copies of each book were sold, from all windows and machines, and how many exist. */
export const SALES = `subscription Sales($titles: [String!]!) {
  counters(names: $titles, namespace: "booksales") { ${FIELDS} }
}`

const buyIn = (fields) => `mutation Buy($title: String!) {
  increment(name: $title, namespace: "booksales") {
    value valueIn(period: MONTH) appliedDelta counter { ${fields} }
  }
}`

/** `fields` is all that the page shows of the book, so that an event from before shows nothing. */
export function usePurchase({ title, book, update, fields = FIELDS, onBought }) {
  const remember = `buy ${title}`
  const action = useAction(async () => {
    try {
      const { increment } = await client.mutate(buyIn(fields), { title }, { remember })
      update([increment.counter])
      // The counter was set to saturate instead of rejecting.
      if (!(increment.appliedDelta > 0)) throw Object.assign(new Error(), { code: 'LIMIT_REACHED' })
      onBought?.(increment)
      return increment
    } catch (error) {
      if (error.code !== 'LIMIT_REACHED') throw error
      // This state is older than what the next event has.
      if (book) update([{ ...book, value: book.maxValue ?? book.value }])
      throw Object.assign(error, { message: `somebody else has bought the last copy of ${title}.` })
    }
  }, remember)
  // Copies are available again, so that message is outdated.
  return action.error?.code === 'LIMIT_REACHED' && leftOf(book) > 0 ? { ...action, error: undefined } : action
}

export function Sale({ month, children, ...sale }) {
  const { title, book } = sale
  const purchase = usePurchase(sale)
  const left = leftOf(book)
  const label = left <= 0 ? 'Sold out' : 'Buy'
  return html`
    <div class="text">
      ${children}
      <p class="stock"><span class="sold">${book && soldText(book)}</span> <strong class="problem">${left > 0 && left <= FEW && `Only ${left} left`}</strong></p>
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
