// A bar chart of a counter's history. A mouse, a finger or the keyboard selects a bar, as on a slider; its value
// is shown.

import { useState } from 'preact/hooks'
import { html, number } from './page.js'

const DAY = { day: 'numeric', month: 'short' }

/** How many buckets of each period a chart shows, and how the start of one is written. */
export const CHARTS = {
  HOUR: { last: 48, label: 'Hour', parts: { ...DAY, hour: '2-digit', minute: '2-digit' } },
  DAY: { last: 30, label: 'Day', parts: DAY },
  WEEK: { last: 26, label: 'Week', parts: DAY },
  MONTH: { last: 24, label: 'Month', parts: { month: 'short', year: 'numeric' } },
  YEAR: { last: 10, label: 'Year', parts: { year: 'numeric' } },
}

/** At most so many distances of lines are as high as the chart. */
const MOST_LINES = 5

/** `buckets`: oldest first; null: this period isn't tracked; undefined: not known yet. */
export function Bars({ id, caption, period, buckets, timeZone, amountOf, none, untracked }) {
  const { label, parts } = CHARTS[period]
  const format = new Intl.DateTimeFormat('en', { ...parts, timeZone, hourCycle: 'h23' })
  /** Start of the selected bucket; undefined: the latest one. */
  const [chosen, setChosen] = useState()
  const list = buckets ?? []
  const position = list.findIndex(({ start }) => start === chosen)
  const index = position === -1 ? list.length - 1 : position
  const choose = (next) => setChosen(next === list.length - 1 ? undefined : list[next]?.start)
  const nameAt = (place) => (list[place] ? format.format(new Date(list[place].start)) : '\u00a0')
  const greatest = Math.max(1, ...list.map(({ value }) => value))
  const step = stepFor(greatest)
  const height = Math.ceil(greatest / step)

  function point({ clientX, currentTarget }) {
    const { left, width } = currentTarget.getBoundingClientRect()
    choose(Math.floor(((clientX - left) / width) * list.length))
  }

  const lineOf = (line) => html`<line x2=${list.length} y1=${line} y2=${line} />`
  const barOf = ({ start, value }, place) => {
    const size = Math.max(value, 0) / step
    return html`<rect key=${start} x=${place + 0.15} y=${height - size} width="0.7" height=${size} />`
  }
  const lines = [...Array(height + 1).keys()]
  const counted = list.flatMap(({ value }, place) => (value === 0 ? [] : `${nameAt(place)}: ${value}`))
  const isEmpty = counted.length === 0
  const emptyText = buckets === null ? untracked : buckets && none
  const reading = isEmpty ? (emptyText ?? '\u00a0') : `${nameAt(index)}: ${amountOf(list[index].value)}`
  return html`
    <figure id=${id}>
      <figcaption><strong>${caption}</strong></figcaption>
      <div class="chart muted" role="img" aria-label=${isEmpty ? (emptyText ?? caption) : counted.join('; ')}>
        <div class="heights line ends">${lines.map((line) => html`<span>${number((height - line) * step)}</span>`)}</div>
        <svg height="200" viewBox="0 0 ${list.length || 1} ${height}" preserveAspectRatio="none" onPointerDown=${point} onPointerMove=${point}>
          <rect class="chosen" x=${index} width="1" height=${height} /> ${lines.map(lineOf)} ${list.map(barOf)}
        </svg>
        <div class="starts line ends">${[0, list.length >> 1, list.length - 1].map((place) => html`<span>${nameAt(place)}</span>`)}</div>
      </div>
      <p class="reading">${reading}</p>
      <input class="unseen" type="range" min="0" max=${list.length - 1} value=${index} aria-label=${label} aria-valuetext=${reading}
        hidden=${isEmpty} onInput=${({ target }) => choose(Number(target.value))} />
      <p class="hint">${timeZone && `${label}s of the time zone ${timeZone}.`}</p>
    </figure>`
}

/** The distance of lines: 1, 2, 2.5, 5, 10, 20, 25 …, of which five at most reach above the greatest value. */
function stepFor(greatest) {
  for (let power = 1; ; power *= 10)
    for (const step of [power, 2 * power, 2.5 * power, 5 * power])
      if (step * MOST_LINES >= greatest && Number.isInteger(step)) return step
}
