// The shop: all books, how many copies of each were sold, and a button to buy one.

import { Freshness, useLive } from './live.js'
import { client, html, show } from './page.js'
import { edition, HeldSale, heldEdition, SALES, Sale, titles } from './sales.js'

const COVERS = ['#b4472f', '#d9982b', '#5f6f2e', '#2f6690', '#5a3e73', '#8a6d1f', '#5f6f2e']

const isPrinted = new Set()

const PRINT = `mutation PrintEdition($title: String!, $copies: SafeInt!) {
  defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
}`

/** Sets once how many copies of the editions exist. After that the API rejects any further one. */
const printEditions = (changed) => Promise.all([edition, heldEdition].map((each) => print(each, changed)))

async function print({ title, copies }, changed) {
  const isUnlimited = changed.some((counter) => counter?.name === title && counter.maxValue === null)
  if (!isUnlimited || isPrinted.has(title)) return
  isPrinted.add(title)
  try {
    await client.mutate(PRINT, { title, copies }, { idempotencyKey: null })
  } catch (error) {
    // If more copies were sold before, the edition can't be limited. Otherwise the next state leads here again.
    if (error.code !== 'LIMIT_REACHED') isPrinted.delete(title)
  }
}

function Shop() {
  const { states: books, show: update, live } = useLive(SALES, { titles }, { onEvent: printEditions })
  const itemOf = (title, place) => html`
    <li key=${title} class="card sale">
      <div class="cover" style=${{ backgroundColor: COVERS[place] }} aria-hidden="true"></div>
      <${title === heldEdition.title ? HeldSale : Sale} title=${title} book=${books[title]} update=${update}>
        <h2><a href=${`/book?${new URLSearchParams({ title })}`}>${title}</a></h2>
      <//>
    </li>`
  return html`
    <ul class="list halves tiles" aria-label="Books">${titles.map(itemOf)}</ul>
    <${Freshness} live=${live} />`
}

show(Shop)
