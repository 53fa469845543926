// The shop's first page: all books, how many of each were sold, and a button that buys.

import { ask, keepFresh } from './api.js'
import { boughtText, buy, leftOf, leftText, soldText, troubleText } from './sales.js'

/** A book of which there are only so many copies. */
const edition = { title: 'Red Horse Hill, signed', copies: 100 }

const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
]

/** Reads how many copies of each book were sold, by all windows on all machines, and how many there are. */
async function readSales() {
  const { counters } = await ask(
    `query Sales($titles: [String!]!) {
      counters(names: $titles, namespace: "booksales") { value maxValue }
    }`,
    { titles },
  )
  return counters.map(({ value, maxValue }) => ({ sold: value, copies: maxValue }))
}

let isPrinted = false

/** Says once how many copies of the edition there are. From then on the API refuses to count one more. */
async function printEdition() {
  isPrinted = true
  await ask(
    `mutation PrintEdition($title: String!, $copies: SafeInt!) {
      defineCounter(name: $title, definition: { maxValue: $copies }, namespace: "booksales") { maxValue }
    }`,
    edition,
  )
}

const trouble = document.querySelector('#trouble')
const template = document.querySelector('#book')

const shelf = titles.map((title) => {
  const book = template.content.firstElementChild.cloneNode(true)
  const button = book.querySelector('button')
  const link = book.querySelector('h2 a')
  link.textContent = title
  link.href = `/book?${new URLSearchParams({ title })}`
  button.setAttribute('aria-label', `Buy ${title}`)
  // How many there are must be known first.
  button.disabled = title === edition.title
  // Counting belongs here, in what the person does: it happens once for each click.
  button.addEventListener('click', () => sell(title, book, button))
  document.querySelector('#books').append(book)
  return book
})

/** Rises with every purchase, so that an answer asked for before one is not shown after it. */
let purchases = 0

/** Buttons whose purchase is under way. */
const busy = new Set()

async function sell(title, book, button) {
  button.disabled = true
  busy.add(button)
  let sales
  try {
    sales = await buy(title)
    purchases += 1
    book.querySelector('.bought').textContent = boughtText(title, sales)
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent = troubleText(title, error)
    if (error.code === 'LIMIT_REACHED') sales = { sold: error.value, copies: error.limit }
  } finally {
    busy.delete(button)
    button.disabled = false
    if (sales) show(book, sales)
    button.focus()
  }
}

function show(book, sales) {
  const left = leftOf(sales)
  const button = book.querySelector('button')
  book.querySelector('.sold').textContent = soldText(sales)
  book.querySelector('.left').textContent = leftText(left)
  button.disabled = left <= 0 || busy.has(button)
}

async function refresh() {
  const before = purchases
  try {
    const sales = await readSales()
    if (sales.at(-1).copies === null && !isPrinted) {
      // If more were sold before, there is no such edition, but all other books.
      await printEdition().catch(() => undefined)
      return await refresh()
    }
    if (purchases === before) shelf.forEach((book, index) => void show(book, sales[index]))
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent = `The numbers may be old: ${error.message}`
  }
}

keepFresh(refresh)
