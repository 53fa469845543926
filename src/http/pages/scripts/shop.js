// The shop's first page: all books, copies sold of each, and a button to buy one.

import { ask } from './api.js'
import { edition, titles } from './books.js'
import { refreshPeriodically } from './refresh.js'
import { openSale } from './sales.js'

const template = document.querySelector('#book')

const shelf = titles.map((title) => {
  const book = template.content.firstElementChild.cloneNode(true)
  const link = book.querySelector('h2 a')
  link.textContent = title
  link.href = `/book?${new URLSearchParams({ title })}`
  document.querySelector('#books').append(book)
  return openSale(book, title, () => refresh())
})

/** Reads how many copies of each book were sold, from all windows and machines, and how many exist. */
async function readSales() {
  const { counters } = await ask(
    `query Sales($titles: [String!]!) {
      counters(names: $titles, namespace: "booksales") { revision value maxValue }
    }`,
    { titles },
  )
  return counters
}

let isPrinted = false

/** Sets once how many copies of the edition exist. After that the API rejects any further one. */
async function printEdition() {
  try {
    await ask(
      `mutation PrintEdition($title: String!, $copies: SafeInt!) {
        defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
      }`,
      edition,
    )
  } catch (error) {
    // More copies were sold before, so the edition can't be limited.
    if (error.code !== 'LIMIT_REACHED') throw error
  }
  isPrinted = true
}

async function showSales() {
  const counters = await readSales()
  if (counters[titles.indexOf(edition.title)].maxValue === null && !isPrinted) {
    await printEdition()
    return showSales()
  }
  shelf.forEach((showSale, index) => void showSale(counters[index]))
}

const refresh = refreshPeriodically(showSales, document.querySelector('#freshness'))
