// The first page: a copy of a book with a number of your own, the request that got it, and what others buy meanwhile.

import { useState } from 'preact/hooks'
import { titles } from './books.js'
import { Freshness, html, KeyField, number, ordinal, render, useKept, useLive } from './page.js'
import { Request } from './request.js'
import { Bought, FIELDS, useBooks, usePurchase } from './sales.js'

const [TITLE] = titles

/** How many purchases of others the page lists. */
const LISTED = 3

const SALES = `subscription Sales($titles: [String!]!) {
  counters(names: $titles, namespace: "booksales") { ${FIELDS} }
}`

function Home() {
  const [books, show] = useBooks()
  const [own, setOwn] = useKept('own copies', [])
  const [sales, setSales] = useState([])
  const live = useLive(SALES, { titles }, ({ counters }) => {
    const sold = counters.filter(Boolean).flatMap(({ name, revision, value }) => {
      const before = books[name]
      return before?.revision < revision && before.value < value
        ? [{ name, first: before.value + 1, last: value }]
        : []
    })
    if (sold.length > 0) setSales((all) => [...sold, ...all].slice(0, 2 * LISTED))
    show(counters)
  })
  // More than the page can list of others, among which an event may bring one of them.
  const onBought = (copy) => setOwn([copy, ...own].slice(0, 100))
  const purchase = usePurchase({ title: TITLE, book: books[TITLE], show, onBought })
  const [mine] = own
  return html`
    <${KeyField} />
    <div class="feel">
      <section class="sale" aria-label="Your copy">
        <${Plate} copy=${mine} />
        <div class="line">
          <button class="buy" onClick=${() => purchase.start()}>Buy a copy</button>
          <p class="stock">${stockText(books[TITLE], purchase)}</p>
        </div>
        <${Bought} title=${TITLE} purchase=${purchase} />
      </section>
      <${Request} title=${TITLE} copy=${mine} />
    </div>
    <${Others} sales=${sales} own=${own} />
    <${Freshness} live=${live} />`
}

function stockText(book, { isLong }) {
  if (isLong) return 'Buying…'
  return book && `${number(book.value)} sold so far`
}

/** A bookplate, with a line for a number or with the number. */
function Plate({ copy }) {
  return html`
    <div class=${copy ? 'plate filled' : 'plate'} aria-hidden="true">
      <p class="ex">Ex libris</p>
      <p class="number">No. <span key=${copy?.value}>${copy ? spaced(copy.value) : '\u00a0'}</span></p>
      <p class="title">${TITLE}</p>
      <p class="stock">${copy?.valueIn ? `the ${ordinal(copy.valueIn)} this month` : ''}</p>
    </div>`
}

/** 4 217, as it is printed. */
const spaced = (value) => number(value).replaceAll(',', '\u2009')

/** What others bought while this page was open. */
function Others({ sales, own }) {
  const isMine = ({ name, first, last }) =>
    name === TITLE && first === last && own.some(({ value }) => value === last)
  const others = sales.filter((sale) => !isMine(sale)).slice(0, LISTED)
  return html`
    <section class="others" aria-labelledby="others">
      <h2 id="others">Sold to others just now</h2>
      <ol class="list">
        ${others.map(
          ({ name, first, last }) => html`
            <li key=${`${name} ${last}`}><strong>${first < last ? `Nos. ${spaced(first)}–${spaced(last)}` : `No. ${spaced(last)}`}</strong> ${name}</li>`,
        )}
      </ol>
      ${others.length === 0 && html`<p class="quietly">Nobody else has bought one yet. Open <a href="/shop" target="_blank">the shop</a> in a second window, and look here.</p>`}
    </section>`
}

render(html`<${Home} />`, document.querySelector('#app'))
