// The shop's first page: all books, copies sold of each, and a button to buy one.

import { ask } from './api.js'
import { edition, titles } from './books.js'
import { subscribe } from './live.js'
import { openSale } from './sales.js'

const template = document.querySelector('#book')

/** The function that shows a state of each book, by its title. */
const shelf = new Map(titles.map((title) => [title, openBook(title)]))

function openBook(title) {
  const book = template.content.firstElementChild.cloneNode(true)
  const link = book.querySelector('h2 a')
  link.textContent = title
  link.href = `/book?${new URLSearchParams({ title })}`
  document.querySelector('#books').append(book)
  return openSale(book, title)
}

/** How many copies of each book were sold, from all windows and machines, and how many exist. */
const SALES = `Sales($titles: [String!]!) {
  counters(names: $titles, namespace: "booksales") { name revision value maxValue }
}`

let isPrinted = false

/** Sets once how many copies of the edition exist. After that the API rejects any further one. */
async function printEdition() {
  isPrinted = true
  try {
    await ask(
      `mutation PrintEdition($title: String!, $copies: SafeInt!) {
        defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
      }`,
      edition,
    )
  } catch (error) {
    // If more copies were sold before, the edition can't be limited. Otherwise the next state leads here again.
    isPrinted = error.code === 'LIMIT_REACHED'
  }
}

function showSales({ counters }) {
  for (const counter of counters) {
    shelf.get(counter.name)(counter)
    if (counter.name === edition.title && counter.maxValue === null && !isPrinted) printEdition()
  }
}

subscribe(SALES, () => ({ titles }), showSales, document.querySelector('#freshness'))
