// The page of one book: copies sold, by hour and by day, and a button to buy one.

import { Bars, DAY, HOUR } from './bars.js'
import { titles } from './books.js'
import { Freshness, useLive, useNewest } from './live.js'
import { html, number, show } from './page.js'
import { copies, Sale } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || titles[0]

/** Everything that the page shows: the numbers by one statement, and the history by another. */
const FIELDS = `
  id name revision value maxValue timeZone valueIn(period: MONTH)
  hours: history(period: HOUR, last: 48) { start value }
  days: history(period: DAY, last: 30) { start value }
`

const SALES = `subscription Sales($title: String!) {
  counters(names: [$title], namespace: "booksales") { ${FIELDS} }
}`

const TEXTS = {
  amountOf: (value) => `${number(value)} sold`,
  none: 'No sales yet in this time.',
  untracked: 'These sales are not recorded.',
}

function Book() {
  const [{ [title]: book }, update] = useNewest()
  const live = useLive(SALES, { title }, ({ counters }) => update(counters))
  const { timeZone, valueIn, hours, days } = book ?? {}
  return html`
    <section class="card sale" aria-label="Sale">
      <${Sale} title=${title} book=${book} update=${update} fields=${FIELDS} month=${valueIn == null ? '' : `${copies(valueIn)} this month`} />
    </section>
    <${Bars} id="hours" caption="Sold in each of the last 48 hours" label="Hour" buckets=${hours} parts=${HOUR} ...${{ timeZone, ...TEXTS }} />
    <${Bars} id="days" caption="Sold on each of the last 30 days" label="Day" buckets=${days} parts=${DAY} ...${{ timeZone, ...TEXTS }} />
    <p class="zone quietly">${timeZone && `Hours and days of the time zone ${timeZone}.`}</p>
    <${Freshness} live=${live} />`
}

document.title = `${title} · Nth`
document.querySelector('h1').textContent = title
show(Book)
