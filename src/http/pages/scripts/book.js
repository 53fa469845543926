// The page of one book: copies sold, by hour and by day, and a button to buy one.

import { useMemo } from 'preact/hooks'
import { Bars } from './bars.js'
import { titles } from './books.js'
import { dateFormat, Freshness, html, KeyField, number, render, useLive } from './page.js'
import { copies, Sale, useBooks } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || titles[0]

/** Everything that the page shows: the numbers by one statement, and the history by another. */
const FIELDS = `
  id
  name
  revision
  value
  maxValue
  timeZone
  valueIn(period: MONTH)
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
  const [{ [title]: book }, show] = useBooks()
  const live = useLive(SALES, { title }, ({ counters }) => show(counters))
  const { timeZone, valueIn, hours, days } = book ?? {}
  const hour = useMemo(
    () => dateFormat({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }, timeZone),
    [timeZone],
  )
  const day = useMemo(() => dateFormat({ day: 'numeric', month: 'short' }, timeZone), [timeZone])
  return html`
    <${KeyField} />
    <section class="card sale" aria-label="Sale">
      <${Sale} title=${title} book=${book} show=${show} fields=${FIELDS} month=${valueIn == null ? '' : `${copies(valueIn)} this month`} />
    </section>
    <${Bars} id="hours" caption="Sold in each of the last 48 hours" label="Hour" buckets=${hours} nameOf=${hour} ...${TEXTS} />
    <${Bars} id="days" caption="Sold on each of the last 30 days" label="Day" buckets=${days} nameOf=${day} ...${TEXTS} />
    <p class="zone quietly">${timeZone && `Hours and days of the time zone ${timeZone}.`}</p>
    <${Freshness} live=${live} />`
}

document.title = `${title} · Nth`
document.querySelector('h1').textContent = title
render(html`<${Book} />`, document.querySelector('#app'))
