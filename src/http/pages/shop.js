// The whole shop: one function that asks the API, one that buys, one that keeps the numbers fresh.

const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
]

/** Sends an operation to the API and returns its data. */
async function ask(query, variables) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = await response.json()
  if (errors) throw Object.assign(new Error(errors[0].message), errors[0].extensions)
  return data
}

/** Counts a copy. The answer is this buyer's own number, so nothing has to be read before or after. */
async function buy(title) {
  const { increment } = await ask(
    'mutation Buy($title: String!) { increment(name: $title, namespace: "booksales") { value } }',
    { title },
  )
  return increment.value
}

/** Reads how many copies of each book were sold, by all windows on all machines. */
async function readSales() {
  const { counters } = await ask(
    'query Sales($titles: [String!]!) { counters(names: $titles, namespace: "booksales") { value } }',
    { titles },
  )
  return counters.map(({ value }) => value)
}

const numbers = new Intl.NumberFormat('en')
const trouble = document.querySelector('#trouble')
const template = document.querySelector('#book')

const shelf = titles.map((title) => {
  const book = template.content.firstElementChild.cloneNode(true)
  const button = book.querySelector('button')
  book.querySelector('h2').textContent = title
  button.setAttribute('aria-label', `Buy ${title}`)
  // Counting belongs here, in what the person does: it happens once for each click.
  button.addEventListener('click', () => sell(title, book, button))
  document.querySelector('#books').append(book)
  return book
})

/** Rises with every purchase, so that an answer asked for before one is not shown after it. */
let purchases = 0

async function sell(title, book, button) {
  button.disabled = true
  try {
    const number = await buy(title)
    purchases += 1
    show(book, number)
    book.querySelector('.bought').textContent = `You just bought copy ${numbers.format(number)} of ${title}.`
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent =
      error.code === 'OUTCOME_UNKNOWN'
        ? 'The connection broke: this copy may or may not have been sold.'
        : `Not sold: ${error.message}`
  } finally {
    button.disabled = false
    button.focus()
  }
}

function show(book, number) {
  book.querySelector('.sold').textContent =
    number === 1 ? '1 copy sold' : `${numbers.format(number)} copies sold`
}

async function refresh() {
  const before = purchases
  try {
    const sales = await readSales()
    if (purchases === before) shelf.forEach((book, index) => void show(book, sales[index]))
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent = `The numbers may be old: ${error.message}`
  }
}

/** Keeps the numbers fresh while somebody looks at them. */
async function keepFresh() {
  if (!document.hidden) await refresh()
  setTimeout(keepFresh, 2000)
}

document.addEventListener('visibilitychange', () => document.hidden || refresh())
keepFresh()
