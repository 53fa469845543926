// The page of one book: how many were sold, by hour and by day, and a button that buys.

import { ask, keepFresh } from './api.js'
import { bars } from './chart.js'
import { boughtText, buy, copiesText, leftOf, leftText, soldText, troubleText } from './sales.js'

const title = new URLSearchParams(location.search).get('title') || 'Red Horse Hill'

const find = (selector) => document.querySelector(selector)
const button = find('button')
const trouble = find('#trouble')

document.title = `${title} · Nth`
find('h1').textContent = title
button.setAttribute('aria-label', `Buy ${title}`)
button.addEventListener('click', sell)

const charts = {
  hours: bars(find('#hours .chart'), { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
  days: bars(find('#days .chart'), { day: 'numeric', month: 'short' }),
}

/** Reads all that the page shows, by one statement for the numbers and one for the history. */
async function readSales() {
  const { counter } = await ask(
    `query Sales($title: String!) {
      counter(name: $title, namespace: "booksales") {
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
  const { value, maxValue, valueIn, ...rest } = counter
  return { sold: value, copies: maxValue, soldThisMonth: valueIn, ...rest }
}

/** Rises with every purchase, so that an answer asked for before one is not shown after it. */
let purchases = 0
let isBusy = false

async function sell() {
  button.disabled = true
  isBusy = true
  let sales
  try {
    sales = await buy(title)
    purchases += 1
    find('.bought').textContent = boughtText(title, sales)
    trouble.textContent = ''
  } catch (error) {
    trouble.textContent = troubleText(title, error)
  } finally {
    isBusy = false
    button.disabled = false
    // Not for sale any more if that was the last copy.
    if (sales) show(sales)
  }
  await refresh()
  button.focus()
}

async function refresh() {
  const before = purchases
  try {
    const sales = await readSales()
    if (purchases !== before) return
    show(sales)
    charts.hours.show(sales.hours, sales.timeZone)
    charts.days.show(sales.days, sales.timeZone)
    find('.zone').textContent = `Hours and days of the time zone ${sales.timeZone}.`
  } catch (error) {
    trouble.textContent = `The numbers may be old: ${error.message}`
  }
}

function show(sales) {
  const left = leftOf(sales)
  find('.sold').textContent = soldText(sales)
  find('.month').textContent =
    sales.soldThisMonth === null ? '' : `${copiesText(sales.soldThisMonth, 'this month')}`
  find('.left').textContent = leftText(left)
  button.disabled = left <= 0 || isBusy
}

keepFresh(refresh)
