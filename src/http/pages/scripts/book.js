// The page of one book: copies sold, by hour and by day, and a button to buy one.

import { titles } from './books.js'
import { bars } from './chart.js'
import { subscribe } from './live.js'
import { setText } from './messages.js'
import { copiesText, openSale } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || titles[0]

const find = (selector) => document.querySelector(selector)

document.title = `${title} · Nth`
find('h1').textContent = title

const showSale = openSale(find('.sale'), title)

const charts = {
  hours: bars(find('#hours'), { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
  days: bars(find('#days'), { day: 'numeric', month: 'short' }),
}

/** Everything that the page shows: the numbers by one statement, and the history by another. */
const SALES = `Sales($title: String!) {
  counters(names: [$title], namespace: "booksales") {
    revision
    value
    maxValue
    timeZone
    valueIn(period: MONTH)
    hours: history(period: HOUR, last: 48) { start value }
    days: history(period: DAY, last: 30) { start value }
  }
}`

function showSales({ counters: [counter] }) {
  if (!showSale(counter)) return
  const { valueIn, timeZone, hours, days } = counter
  setText(find('.month'), valueIn === null ? '' : copiesText(valueIn, 'this month'))
  charts.hours.show(hours, timeZone)
  charts.days.show(days, timeZone)
  setText(find('.zone'), `Hours and days of the time zone ${timeZone}.`)
}

subscribe(SALES, () => ({ title }), showSales, find('#freshness'))
