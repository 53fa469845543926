// A bar chart of a counter's history. A slider, a mouse or a finger selects a bar; its value is shown.

import { useState } from 'preact/hooks'
import { html, number } from './page.js'

/** How the starts of days and hours are written. */
export const DAY = { day: 'numeric', month: 'short' }
export const HOUR = { ...DAY, hour: '2-digit', minute: '2-digit' }

/** Distances of the lines behind the bars. */
const LINES = 4

/** `buckets`: oldest first; null: this period isn't tracked; undefined: not known yet. `parts` are those of a bar's name. */
export function Bars({ id, caption, label, buckets, parts, timeZone, amountOf, none, untracked }) {
  const format = new Intl.DateTimeFormat('en', { ...parts, timeZone, hourCycle: 'h23' })
  /** Start of the selected bucket; undefined: the latest one. */
  const [chosen, setChosen] = useState()
  const list = buckets ?? []
  const position = list.findIndex(({ start }) => start === chosen)
  const index = position === -1 ? list.length - 1 : position
  const choose = (next) => setChosen(next === list.length - 1 ? undefined : list[next]?.start)
  const nameAt = (place) => (list[place] ? format.format(new Date(list[place].start)) : '\u00a0')
  const step = stepFor(Math.max(...list.map(({ value }) => value)))

  function point({ clientX, currentTarget }) {
    const { left, width } = currentTarget.getBoundingClientRect()
    choose(Math.floor(((clientX - left) / width) * list.length))
  }

  const lineOf = (line) => html`<line x2=${list.length} y1=${line} y2=${line} />`
  const barOf = ({ start, value }, place) => {
    const height = Math.max(value, 0) / step
    return html`<rect key=${start} x=${place + 0.15} y=${LINES - height} width="0.7" height=${height} />`
  }
  const lines = [...Array(LINES + 1).keys()]
  const counted = list.flatMap(({ value }, place) => (value === 0 ? [] : `${nameAt(place)}: ${value}`))
  const isEmpty = counted.length === 0
  const emptyText = buckets === null ? untracked : buckets && none
  const reading = isEmpty ? '' : `${nameAt(index)}: ${amountOf(list[index].value)}`
  return html`
    <figure id=${id}>
      <figcaption><strong>${caption}</strong></figcaption>
      <div class="chart quietly" role="img" aria-label=${isEmpty ? (emptyText ?? caption) : counted.join('; ')}>
        <div class="heights">${lines.map((line) => html`<span>${number((LINES - line) * step)}</span>`)}</div>
        <svg viewBox="0 0 ${list.length || 1} ${LINES}" preserveAspectRatio="none" onPointerDown=${point} onPointerMove=${point}>
          <rect class="chosen" x=${index} width="1" height=${LINES} /> ${lines.map(lineOf)} ${list.map(barOf)}
        </svg>
        <div class="starts line ends">${[0, list.length >> 1, list.length - 1].map((place) => html`<span>${nameAt(place)}</span>`)}</div>
      </div>
      <p class="empty quietly">${isEmpty && emptyText}</p>
      <div style=${{ visibility: isEmpty ? 'hidden' : '' }}>
        <p class="reading">${reading}</p>
        <input type="range" min="0" max=${list.length - 1} value=${index} aria-label=${label} aria-valuetext=${reading} onInput=${({ target }) => choose(Number(target.value))} />
      </div>
    </figure>`
}

/** The distance between two lines: 1, 2, 5, 10 …, so that the greatest value is not above the highest line. */
function stepFor(greatest) {
  for (let power = 1; ; power *= 10)
    for (const step of [power, 2 * power, 5 * power]) if (step * LINES >= greatest) return step
}
