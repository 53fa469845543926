// The first page: a copy of a book with a number of your own, the request that got it, and what others buy meanwhile.

import { useState } from 'preact/hooks'
import { Freshness, useLive } from './live.js'
import { html, number, ordinal, show, sized, useKept } from './page.js'
import { Bought, SALES, titles, usePurchase } from './sales.js'
import { UseIt } from './useIt.js'

const [TITLE] = titles

/** How many purchases of others the page lists. */
const LISTED = 3

function Home() {
  const [own, setOwn] = useKept('own copies', [])
  const [sales, setSales] = useState([])
  const { states: books, show: update, live } = useLive(SALES, { titles }, { onEvent: noteSales })

  function noteSales(changed) {
    const sold = changed.filter((counter) => books[counter?.name]?.value < counter?.value)
    const sale = ({ name, value }) => ({ name, first: books[name].value + 1, last: value })
    if (sold.length > 0) setSales((all) => [...sold.map(sale), ...all].slice(0, 2 * LISTED))
  }
  // More than the page can list of others, among which an event may bring one of them.
  const onBought = (copy) => setOwn([copy, ...own].slice(0, 100))
  const purchase = usePurchase({ title: TITLE, book: books[TITLE], update, onBought })
  return html`
    <div class="feel halves tiles">
      <section aria-label="Your copy">
        <${Plate} copy=${own[0]} />
        <div class="line">
          <button class="buy" onClick=${() => purchase.start()}>Buy a copy</button>
          <p class="stock">${purchase.isLong ? 'Buying…' : books[TITLE] && `${number(books[TITLE].value)} sold so far`}</p>
        </div>
        <${Bought} title=${TITLE} purchase=${purchase} />
      </section>
      <${UseIt} namespace="booksales" name=${TITLE} answer=${own[0]} />
    </div>
    <${Others} sales=${sales} own=${own} />
    <${Freshness} live=${live} />`
}

function Plate({ copy }) {
  return html`
    <div class=${copy ? 'plate filled' : 'plate'} aria-hidden="true">
      <p class="ex">EX LIBRIS</p>
      <p class="number" style=${sized(`No. ${copy ? number(copy.value) : '---'}`)}>No. <span key=${copy?.value}>${copy ? spaced(copy.value) : '\u00a0'}</span></p>
      <p><em>${TITLE}</em></p>
      <p class="stock">${copy?.valueIn ? `the ${ordinal(copy.valueIn)} this month` : ''}</p>
    </div>`
}

const spaced = (value) => number(value).replaceAll(',', '\u2009')

function Others({ sales, own }) {
  const isMine = ({ name, first, last }) =>
    name === TITLE && first === last && own.some(({ value }) => value === last)
  const others = sales.filter((sale) => !isMine(sale)).slice(0, LISTED)
  const itemOf = ({ name, first, last }) => {
    const numbers = first < last ? `Nos. ${spaced(first)}–${spaced(last)}` : `No. ${spaced(last)}`
    return html`<li key=${`${name} ${last}`}><strong>${numbers}</strong> ${name}</li>`
  }
  return html`
    <section class="others" aria-labelledby="others">
      <h2 id="others">Sold to others just now</h2>
      ${others.length > 0 && html`<ol class="list">${others.map(itemOf)}</ol>`}
      ${others.length === 0 && html`<p class="muted">Nobody else has bought one yet. Open <a href="/shop" target="_blank">the shop</a> in a second window, and look here.</p>`}
    </section>`
}

show(Home)
