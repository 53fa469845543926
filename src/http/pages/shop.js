// The whole shop: one function that asks the API, one that buys, one that keeps the numbers fresh.

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

/** From so few copies on, a buyer is told how many are left. */
const FEW = 10

/** Sends an operation to the API and returns its data. */
async function ask(query, variables, headers = {}) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = await response.json()
  if (errors) throw Object.assign(new Error(errors[0].message), errors[0].extensions)
  return data
}

/**
 * Counts a copy. The answer is this buyer's own number, so nothing has to be read before or after. The key says
 * which purchase it is: so it can be sent again when an answer was lost, and is still counted once.
 */
async function buy(title) {
  const key = crypto.getRandomValues(new Uint32Array(4)).join('-')
  for (let waitMs = 250; ; waitMs *= 2) {
    try {
      const { increment } = await ask(
        `mutation Buy($title: String!) {
          increment(name: $title, namespace: "booksales") { value appliedDelta counter { maxValue } }
        }`,
        { title },
        { 'Idempotency-Key': key },
      )
      const copies = increment.counter?.maxValue
      if (increment.appliedDelta > 0) return { sold: increment.value, copies }
      // Somebody has had the edition saturate rather than refuse.
      throw Object.assign(new Error('Sold out'), {
        code: 'LIMIT_REACHED',
        value: increment.value,
        limit: copies,
      })
    } catch (error) {
      // Without a code there was no answer at all.
      const mayRepeat = error.retryable || !error.code
      if (!mayRepeat || waitMs > 4000) throw error
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
}

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

const numbers = new Intl.NumberFormat('en')
const trouble = document.querySelector('#trouble')
const template = document.querySelector('#book')

const shelf = titles.map((title) => {
  const book = template.content.firstElementChild.cloneNode(true)
  const button = book.querySelector('button')
  book.querySelector('h2').textContent = title
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
    book.querySelector('.bought').textContent =
      `You just bought copy ${numbers.format(sales.sold)} of ${title}.`
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent = troubleWith(title, error)
    if (error.code === 'LIMIT_REACHED') sales = { sold: error.value, copies: error.limit }
  } finally {
    busy.delete(button)
    button.disabled = false
    if (sales) show(book, sales)
    button.focus()
  }
}

function troubleWith(title, { code, message }) {
  if (code === 'LIMIT_REACHED') return `Not sold: somebody else has bought the last copy of ${title}.`
  return code === 'OUTCOME_UNKNOWN' || !code
    ? 'The connection broke: this copy may or may not have been sold.'
    : `Not sold: ${message}`
}

function show(book, { sold, copies }) {
  const left = copies == null ? Number.POSITIVE_INFINITY : copies - sold
  const button = book.querySelector('button')
  book.querySelector('.sold').textContent =
    copies == null ? soldText(sold) : `${numbers.format(sold)} of ${numbers.format(copies)} copies sold`
  book.querySelector('.left').textContent = leftText(left)
  button.disabled = left <= 0 || busy.has(button)
}

function soldText(sold) {
  return sold === 1 ? '1 copy sold' : `${numbers.format(sold)} copies sold`
}

function leftText(left) {
  if (left > FEW) return ''
  return left > 0 ? `Only ${left} left` : 'Sold out'
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

/** Keeps the numbers fresh while somebody looks at them. */
async function keepFresh() {
  if (!document.hidden) await refresh()
  setTimeout(keepFresh, 2000)
}

document.addEventListener('visibilitychange', () => document.hidden || refresh())
keepFresh()
