// The shop: all books, how many copies of each were sold, and a button to buy one.

import { Freshness, useLive } from './live.js'
import { client, html, show } from './page.js'
import { edition, SALES, Sale, titles } from './sales.js'

const COVERS = ['#b4472f', '#d9982b', '#5f6f2e', '#2f6690', '#5a3e73', '#8a6d1f']

let isPrinted = false

const PRINT = `mutation PrintEdition($title: String!, $copies: SafeInt!) {
  defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
}`

/** Sets once how many copies of the edition exist. After that the API rejects any further one. */
async function printEdition(changed) {
  const isUnlimited = changed.some((counter) => counter?.name === edition.title && counter.maxValue === null)
  if (!isUnlimited || isPrinted) return
  isPrinted = true
  try {
    await client.mutate(PRINT, edition, { idempotencyKey: null })
  } catch (error) {
    // If more copies were sold before, the edition can't be limited. Otherwise the next state leads here again.
    isPrinted = error.code === 'LIMIT_REACHED'
  }
}

function Shop() {
  const { states: books, show: update, live } = useLive(SALES, { titles }, { onEvent: printEdition })
  const itemOf = (title, place) => html`
    <li key=${title} class="card sale">
      <div class="cover" style=${{ backgroundColor: COVERS[place] }} aria-hidden="true"></div>
      <${Sale} title=${title} book=${books[title]} update=${update}>
        <h2><a href=${`/book?${new URLSearchParams({ title })}`}>${title}</a></h2>
      <//>
    </li>`
  return html`
    <ul class="list halves tiles" aria-label="Books">${titles.map(itemOf)}</ul>
    <${Freshness} live=${live} />`
}

show(Shop)
