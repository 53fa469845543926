// The shop: all books, how many copies of each were sold, and a button to buy one.

import { edition, titles } from './books.js'
import { client, Freshness, html, KeyField, render, useLive } from './page.js'
import { FIELDS, Sale, useBooks } from './sales.js'

/** How many copies of each book were sold, from all windows and machines, and how many exist. */
const SALES = `subscription Sales($titles: [String!]!) {
  counters(names: $titles, namespace: "booksales") { ${FIELDS} }
}`

const COVERS = ['#b4472f', '#d9982b', '#5f6f2e', '#2f6690', '#5a3e73', '#8a6d1f']

let isPrinted = false

/** Sets once how many copies of the edition exist. After that the API rejects any further one. */
async function printEdition() {
  isPrinted = true
  try {
    await client.mutate(
      `mutation PrintEdition($title: String!, $copies: SafeInt!) {
        defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
      }`,
      edition,
      { idempotencyKey: null },
    )
  } catch (error) {
    // If more copies were sold before, the edition can't be limited. Otherwise the next state leads here again.
    isPrinted = error.code === 'LIMIT_REACHED'
  }
}

function Shop() {
  const [books, show] = useBooks()
  const live = useLive(SALES, { titles }, ({ counters }) => {
    show(counters)
    const limited = counters.find((counter) => counter?.name === edition.title)
    if (limited?.maxValue === null && !isPrinted) printEdition()
  })
  return html`
    <${KeyField} />
    <ul class="list stack" aria-label="Books">
      ${titles.map(
        (title, place) => html`
          <li key=${title} class="card sale">
            <div class="cover" style=${{ backgroundColor: COVERS[place] }} aria-hidden="true"></div>
            <${Sale} title=${title} book=${books[title]} show=${show}>
              <h2><a href=${`/book?${new URLSearchParams({ title })}`}>${title}</a></h2>
            <//>
          </li>`,
      )}
    </ul>
    <${Freshness} live=${live} />`
}

render(html`<${Shop} />`, document.querySelector('#app'))
