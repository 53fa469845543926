// Bar charts of a counter's history, drawn by uPlot. A slider selects a bar by touch or keyboard; its value is shown.

import { setText } from './messages.js'
import uPlot from './uplot.js'

const HEIGHT = 200

/** What the shop says of a total, and where there are none. */
const SALES = {
  amount: (value) => `${value.toLocaleString('en')} sold`,
  none: 'No sales yet in this time.',
  untracked: 'These sales are not recorded.',
}

/** Opens the chart of a figure; `labels` is the format of its buckets' names. */
export function bars(figure, labels, texts = SALES) {
  const [element, empty, reading, slider] = ['.chart', '.empty', '.reading', '.slider'].map((selector) =>
    figure.querySelector(selector),
  )
  let plot
  let buckets
  let zone
  let format
  /** Start of the selected bucket; undefined: the latest one. */
  let chosen

  function draw() {
    if (!buckets) return
    plot?.destroy()
    plot = new uPlot(optionsFor(element, nameAt, onCursor), dataOf(buckets), element)
  }

  /** Selects the bar under the pointer. */
  function onCursor({ cursor }) {
    if (cursor.idx != null) choose(cursor.idx)
  }

  function choose(index) {
    chosen = index === buckets.length - 1 ? undefined : buckets[index].start
    showReading()
  }

  function chosenIndex() {
    const found = buckets.findIndex(({ start }) => start === chosen)
    return found === -1 ? buckets.length - 1 : found
  }

  function showReading() {
    const index = chosenIndex()
    const text = `${nameAt(index)}: ${texts.amount(buckets[index].value)}`
    slider.max = buckets.length - 1
    slider.value = index
    slider.setAttribute('aria-valuetext', text)
    setText(reading, text)
  }

  /** Moves the chart's line to the selected bar. */
  function pointAtChosen() {
    plot.setCursor({ left: plot.valToPos(chosenIndex(), 'x'), top: 0 }, false)
  }

  function nameAt(index) {
    return buckets[index] ? format.format(new Date(buckets[index].start)) : ''
  }

  const closing = new AbortController()
  const { signal } = closing
  const onInput = () => {
    choose(Number(slider.value))
    pointAtChosen()
  }
  slider.addEventListener('input', onInput, { signal })
  const resizing = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: HEIGHT }))
  resizing.observe(element)
  for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
    matchMedia(query).addEventListener('change', draw, { signal })
  }

  return {
    /** Shows buckets, oldest first, labelled in a time zone; null: the counter doesn't track this period. */
    show(read, timeZone) {
      buckets = read ?? []
      if (timeZone !== zone) {
        zone = timeZone
        format = new Intl.DateTimeFormat('en', { ...labels, timeZone, hourCycle: 'h23' })
        draw()
      } else {
        // The buckets may have moved on: without this, uPlot would select the one that is under its line now.
        if (plot.cursor.left >= 0) pointAtChosen()
        plot.setData(dataOf(buckets))
      }
      const sold = buckets.flatMap(({ value }, index) => (value === 0 ? [] : `${nameAt(index)}: ${value}`))
      const isEmpty = sold.length === 0
      setText(empty, isEmpty ? emptyText(read, texts) : '')
      for (const part of [reading, slider]) part.hidden = isEmpty
      if (!isEmpty) showReading()
      // The same as text.
      element.setAttribute('aria-label', isEmpty ? empty.textContent : sold.join('; '))
    },

    /** Removes the chart, so that the figure can get another one. */
    close() {
      closing.abort()
      resizing.disconnect()
      plot?.destroy()
    },
  }
}

function emptyText(read, { none, untracked }) {
  return read ? none : untracked
}

/** Bars are evenly spaced, whatever the length of an hour or a day: the x value is the bucket's index. */
function dataOf(buckets) {
  return [buckets.map((_, index) => index), buckets.map(({ value }) => value)]
}

function optionsFor(element, nameAt, onCursor) {
  const style = getComputedStyle(document.documentElement)
  const color = (name) => style.getPropertyValue(name)
  const axis = {
    stroke: color('--chart-text'),
    grid: { stroke: color('--chart-line'), width: 1 },
    ticks: { stroke: color('--chart-line'), width: 1 },
  }
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    hooks: { setCursor: [onCursor] },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: (_, first, last) => [first - 0.5, last + 0.5] },
      y: { range: (_, _low, high) => [0, Math.max(high ?? 0, 4)] },
    },
    axes: [
      { ...axis, space: 90, grid: { show: false }, values: (_, ticks) => ticks.map(nameAt) },
      {
        ...axis,
        size: widthOf,
        values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString('en') : '')),
      },
    ],
    series: [
      {},
      {
        fill: color('--chart-bar'),
        stroke: color('--chart-bar'),
        width: 0,
        points: { show: false },
        paths: uPlot.paths.bars({ size: [0.7, 40] }),
      },
    ],
  }
}

/** The width of an axis, in CSS pixels: its longest label, the gap beside it and its ticks. uPlot's own cuts long ones off. */
function widthOf({ axes, ctx }, labels, index) {
  const { font, gap, ticks } = axes[index]
  ctx.font = font[0]
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width / devicePixelRatio)
  return Math.ceil(Math.max(0, ...widths)) + gap + ticks.size
}
