// A book on sale: how many copies were sold, a button to buy one, and what came of it.

import { useState } from 'preact/hooks'
import { amount, client, html, number, Outcome, ordinal, useAction } from './page.js'

/** A book in a limited edition. */
export const edition = { title: 'Red Horse Hill, signed', copies: 100 }

/** Another one, whose copies are held while their buyers pay. */
export const heldEdition = { title: 'Night Train North, one of ten', copies: 10 }

export const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
  heldEdition.title,
]

/** If no more copies than this are left, buyers see how many. */
const FEW = 10

const FIELDS = 'id name revision value held maxValue'

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

const HOLD = `mutation Hold($title: String!) {
  hold(changes: [{ name: $title }], namespace: "booksales", ttlSeconds: 60) { id expiresAt deltas { counter { ${FIELDS} } } }
}`
const PAY = `mutation Pay($id: ID!) { confirmHold(id: $id) { value valueIn(period: MONTH) counter { ${FIELDS} } } }`
const CANCEL = `mutation Cancel($id: ID!) { releaseHold(id: $id) { deltas { counter { ${FIELDS} } } } }`

/** A book of which a copy is held while its buyer pays. A payment that is abandoned gives it back after a minute. */
export function HeldSale({ title, book, update, children }) {
  const [hold, setHold] = useState()
  const end = ({ deltas: [{ counter }] }) => {
    setHold(undefined)
    update([counter])
  }
  const holding = useAction(async () => {
    const { hold: made } = await client
      .mutate(HOLD, { title }, { remember: `hold ${title}` })
      .catch((error) => {
        const why = error.extensions?.held
          ? 'all copies are being paid for. Try again in a minute'
          : 'it is sold out'
        throw error.code === 'LIMIT_REACHED' ? Object.assign(error, { message: `${why}.` }) : error
      })
    update(made.deltas.map(({ counter }) => counter))
    setHold(made)
  }, `hold ${title}`)
  // Neither needs a key: a hold is confirmed or released once.
  const paying = useAction(async () => {
    try {
      const [bought] = (await client.mutate(PAY, { id: hold.id }, { idempotencyKey: null })).confirmHold
      end({ deltas: [bought] })
      return bought
    } catch (error) {
      if (error.code === 'RESERVATION_CLOSED') setHold(undefined)
      throw error
    }
  })
  const cancelling = useAction(async () =>
    end((await client.mutate(CANCEL, { id: hold.id }, { idempotencyKey: null })).releaseHold),
  )
  const left = leftOf(book)
  const label = left <= 0 ? (book.held > 0 ? 'Being paid for' : 'Sold out') : 'Buy'
  const buttons = hold
    ? html`<button aria-label=${`Pay ${title}`} onClick=${() => paying.start()}>Pay</button> <button class="quiet" aria-label=${`Cancel ${title}`} onClick=${() => cancelling.start()}>Cancel</button>`
    : html`<button class="buy" aria-label=${`${label} ${title}`} aria-disabled=${!(left > 0)} onClick=${() => left > 0 && holding.start()}>${label}</button>`
  const until =
    hold && new Date(hold.expiresAt).toLocaleTimeString('en', { timeStyle: 'short', hourCycle: 'h23' })
  return html`
    <div class="text">
      ${children}
      <p class="stock"><span class="sold">${book && soldText(book)}</span>${book?.held > 0 && `, ${number(book.held)} being paid for`}</p>
      ${hold && html`<p class="stock">Reserved for you until ${until}</p>`}
      <${Bought} title=${title} purchase=${[holding, cancelling].find(({ error }) => error) ?? paying} />
    </div>
    <div class="buy line">${buttons}</div>`
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
  return book.maxValue === null ? Number.POSITIVE_INFINITY : book.maxValue - book.value - (book.held ?? 0)
}
