// The history of a counter: a chart of the totals of one period, which is in the address.

import { bars } from '../../chart.js'
import { setText } from '../../messages.js'
import { amendAddress } from '../address.js'
import { element } from '../elements.js'
import { numberText } from '../formats.js'
import { choiceField } from '../forms/fields.js'

const date = { day: 'numeric', month: 'short' }

/** How many periods the chart shows, and how it names them. */
const PERIODS = {
  HOUR: { last: 48, text: 'Hour', labels: { ...date, hour: '2-digit', minute: '2-digit' } },
  DAY: { last: 30, text: 'Day', labels: date },
  WEEK: { last: 26, text: 'Week', labels: date },
  MONTH: { last: 24, text: 'Month', labels: { month: 'short', year: 'numeric' } },
  YEAR: { last: 10, text: 'Year', labels: { year: 'numeric' } },
}

const TEXTS = {
  amount: (value) => `${numberText(value)} added`,
  none: 'Nothing was added in this time.',
  untracked: 'The definition keeps neither these totals nor finer ones.',
}

/** Opens the chart; `onChange` is called with the variables of the subscription when another period is chosen. */
export function openHistory(first, onChange, signal) {
  let period = first in PERIODS ? first : 'DAY'
  const zone = element('p', { class: 'zone' })
  const figure = document.querySelector('#history').content.firstElementChild.cloneNode(true)
  const [caption, chart, slider] = ['figcaption', '.chart', '.slider'].map((part) =>
    figure.querySelector(part),
  )
  const choices = Object.entries(PERIODS).map(([name, { text }]) => [name, text])
  const controls = choiceField('period', 'Totals of each', undefined, choices, {
    value: period,
    change: choose,
  })
  let drawn

  function variables() {
    return { period, last: PERIODS[period].last }
  }

  function choose({ target }) {
    period = target.value
    amendAddress({ period })
    start()
    onChange(variables())
  }

  function start() {
    const { last, text, labels } = PERIODS[period]
    drawn?.close()
    drawn = bars(figure, labels, TEXTS)
    setText(caption, `Added in each of the last ${last} ${text.toLowerCase()}s`)
    slider.setAttribute('aria-label', text)
    chart.setAttribute('aria-label', caption.textContent)
  }

  signal.addEventListener('abort', () => drawn?.close())
  return {
    figure,
    controls,
    zone,
    variables,
    /** Once the figure is in the page. */
    start,
    show({ history, timeZone }) {
      drawn.show(history, timeZone)
      setText(zone, `Periods of the time zone ${timeZone}.`)
    },
  }
}
