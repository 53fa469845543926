// The page of one book: copies sold, by hour and by day, and a button to buy one.

import { ask } from './api.js'
import { titles } from './books.js'
import { bars } from './chart.js'
import { setText } from './messages.js'
import { refreshPeriodically } from './refresh.js'
import { copiesText, openSale } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || titles[0]

const find = (selector) => document.querySelector(selector)

document.title = `${title} · Nth`
find('h1').textContent = title

const showSale = openSale(find('.sale'), title, () => refresh())

const charts = {
  hours: bars(find('#hours'), { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
  days: bars(find('#days'), { day: 'numeric', month: 'short' }),
}

/** Reads everything that the page shows, by one statement for the numbers and one for the history. */
async function readSales() {
  const { counter } = await ask(
    `query Sales($title: String!) {
      counter(name: $title, namespace: "booksales") {
        revision
        value
        maxValue
        timeZone
        valueIn(period: MONTH)
        hours: history(period: HOUR, last: 48) { start value }
        days: history(period: DAY, last: 30) { start value }
      }
    }`,
    { title },
  )
  return counter
}

async function showSales() {
  const counter = await readSales()
  if (!showSale(counter)) return
  const { valueIn, timeZone, hours, days } = counter
  setText(find('.month'), valueIn === null ? '' : copiesText(valueIn, 'this month'))
  charts.hours.show(hours, timeZone)
  charts.days.show(days, timeZone)
  setText(find('.zone'), `Hours and days of the time zone ${timeZone}.`)
}

const refresh = refreshPeriodically(showSales, find('#freshness'))
