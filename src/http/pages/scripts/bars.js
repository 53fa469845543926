// A bar chart of a counter's history, drawn by uPlot. A slider selects a bar by touch or keyboard; its value is shown.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { html, number } from './page.js'
import uPlot from './uplot.js'

const HEIGHT = 200

/** How the starts of days and hours are written. */
export const DAY = { day: 'numeric', month: 'short' }
export const HOUR = { ...DAY, hour: '2-digit', minute: '2-digit' }

/** `buckets`: oldest first; null: this period isn't tracked; undefined: not known yet. `parts` are those of a bar's name. */
export function Bars({ id, caption, label, buckets, parts, timeZone, amountOf, none, untracked }) {
  const format = useMemo(
    () => new Intl.DateTimeFormat('en', { ...parts, timeZone, hourCycle: 'h23' }),
    [parts, timeZone],
  )
  const element = useRef()
  const plot = useRef()
  /** Start of the selected bucket; undefined: the latest one. */
  const [chosen, setChosen] = useState()
  const list = buckets ?? []
  const position = list.findIndex(({ start }) => start === chosen)
  const index = position === -1 ? list.length - 1 : position
  const choose = (next) => setChosen(next === list.length - 1 ? undefined : list[next]?.start)
  const nameAt = (place) => (list[place] ? format.format(new Date(list[place].start)) : '')
  /** What the chart's own functions need of the last rendering. */
  const latest = useRef()
  latest.current = { choose, nameAt }
  const isKnown = buckets !== undefined

  useLayoutEffect(() => {
    if (!isKnown) return
    const chart = new uPlot(optionsFor(element.current, latest), dataOf(list), element.current)
    plot.current = chart
    const resizing = new ResizeObserver(() =>
      chart.setSize({ width: element.current.clientWidth, height: HEIGHT }),
    )
    resizing.observe(element.current)
    const closing = new AbortController()
    // A canvas doesn't follow the colours of the system by itself.
    for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)'])
      matchMedia(query).addEventListener('change', () => chart.redraw(), closing)
    return () => {
      closing.abort()
      resizing.disconnect()
      chart.destroy()
    }
  }, [isKnown, format])

  useLayoutEffect(() => {
    if (!plot.current) return
    // The buckets may have moved on: without this, uPlot would select the one that is under its line now.
    if (plot.current.cursor.left >= 0) pointAt(index)
    plot.current.setData(dataOf(list))
  }, [buckets])

  function pointAt(place) {
    plot.current.setCursor({ left: plot.current.valToPos(place, 'x'), top: 0 }, false)
  }

  function slide({ target }) {
    choose(Number(target.value))
    pointAt(Number(target.value))
  }

  const counted = list.flatMap(({ value }, place) => (value === 0 ? [] : `${nameAt(place)}: ${value}`))
  const isEmpty = counted.length === 0
  const emptyText = buckets === null ? untracked : none
  const reading = isEmpty ? '' : `${nameAt(index)}: ${amountOf(list[index].value)}`
  return html`
    <figure id=${id}>
      <figcaption><strong>${caption}</strong></figcaption>
      <div class="chart" ref=${element} role="img" aria-label=${isEmpty ? (isKnown ? emptyText : caption) : counted.join('; ')}></div>
      <p class="empty quietly">${isKnown && isEmpty && emptyText}</p>
      <div style=${{ visibility: isEmpty ? 'hidden' : '' }}>
        <p class="reading">${reading}</p>
        <input class="slider" type="range" min="0" max=${list.length - 1} value=${index} aria-label=${label} aria-valuetext=${reading} onInput=${slide} />
      </div>
    </figure>`
}

/** Bars are evenly spaced, whatever the length of an hour or a day: the x value is the bucket's index. */
function dataOf(buckets) {
  return [buckets.map((_, index) => index), buckets.map(({ value }) => value)]
}

function optionsFor(element, latest) {
  const color = (name) => () => getComputedStyle(element)[name]
  const lines = { stroke: color('stroke'), width: 1 }
  const axis = { stroke: color('color'), grid: lines, ticks: lines }
  const namesOf = (_, ticks) => ticks.map((tick) => latest.current.nameAt(tick))
  const numbersOf = (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? number(tick) : ''))
  const bar = { fill: color('fill'), stroke: color('fill'), width: 0 }
  return {
    width: element.clientWidth,
    height: HEIGHT,
    // Room for half of the first label and of the last one.
    padding: [null, 40, null, 32],
    legend: { show: false },
    hooks: { setCursor: [({ cursor }) => cursor.idx != null && latest.current.choose(cursor.idx)] },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: (_, first, last) => [first - 0.5, last + 0.5] },
      y: { range: (_, _low, high) => [0, Math.max(high ?? 0, 4)] },
    },
    axes: [
      { ...axis, space: 90, grid: { show: false }, values: namesOf },
      { ...axis, size: widthOf, values: numbersOf },
    ],
    series: [{}, { ...bar, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 40] }) }],
  }
}

/** The width of an axis, in CSS pixels: its longest label, the gap beside it and its ticks. uPlot's own cuts long ones off. */
function widthOf({ axes, ctx }, labels, index) {
  const { font, gap, ticks } = axes[index]
  ctx.font = font[0]
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width / devicePixelRatio)
  return Math.ceil(Math.max(0, ...widths)) + gap + ticks.size
}
