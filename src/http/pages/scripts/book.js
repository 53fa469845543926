// The page of one book: copies sold, by hour and by day, and a button to buy one.

import { Bars } from './bars.js'
import { Freshness, useLive } from './live.js'
import { html, number, show } from './page.js'
import { copies, Sale, titles } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || titles[0]

/** Everything that the page shows: the numbers by one statement, and the history by another. */
const FIELDS = `
  id name revision value held maxValue timeZone createdAt valueIn(period: MONTH)
  hours: history(period: HOUR, last: 48) { start value }
  days: history(period: DAY, last: 30) { start value }
`

const SALES = `subscription Sales($title: String!) {
  counters(names: [$title], namespace: "booksales") { ${FIELDS} }
}`

function Book() {
  const { states, show: update, live } = useLive(SALES, { title })
  const book = states[title]
  const { timeZone, createdAt, valueIn, hours, days } = book ?? {}
  if (createdAt === null && !titles.includes(title))
    return html`<p class="lead">The shop has no book of this title.</p>`
  const chart = {
    timeZone,
    amountOf: (value) => `${number(value)} sold`,
    none: 'No sales yet in this time.',
    untracked: 'These sales are not recorded.',
  }
  return html`
    <section class="card sale" aria-label="Sale">
      <${Sale} ...${{ title, book, update }} fields=${FIELDS} month=${valueIn == null ? '' : `${copies(valueIn)} this month`} />
    </section>
    <div class="halves tiles">
      <${Bars} id="hours" caption="Sold in each of the last 48 hours" period="HOUR" buckets=${hours} ...${chart} />
      <${Bars} id="days" caption="Sold on each of the last 30 days" period="DAY" buckets=${days} ...${chart} />
    </div>
    <${Freshness} live=${live} />`
}

document.title = `${title} · Nth`
document.querySelector('h1').textContent = title
show(Book)
