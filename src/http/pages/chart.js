// Bar charts of a counter's history, drawn by uPlot.

import uPlot from './uplot.js'

const HEIGHT = 200

/** Makes a chart that fills its place; `labels` says how its buckets are named. */
export function bars(place, labels) {
  let plot
  let shown
  let zone = 'UTC'

  function draw() {
    if (!shown) return
    plot?.destroy()
    plot = new uPlot(optionsFor(place, zone, labels), dataOf(shown), place)
  }

  new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)

  return {
    /** Shows buckets, oldest first, named as clocks in a time zone show them. */
    show(buckets, timeZone) {
      const isNew = !plot || timeZone !== zone
      shown = buckets
      zone = timeZone
      if (isNew) draw()
      else plot.setData(dataOf(buckets))
      place.setAttribute('aria-label', textOf(buckets, zone, labels))
    },
  }
}

function dataOf(buckets) {
  return [
    buckets.map((_, index) => index),
    buckets.map(({ value }) => value),
    buckets.map(({ start }) => start),
  ]
}

/** Bars stand side by side, however long an hour or a day is; their places are named by what begins there. */
function optionsFor(place, timeZone, labels) {
  const style = getComputedStyle(document.documentElement)
  const color = (name) => style.getPropertyValue(name)
  const format = new Intl.DateTimeFormat('en', { ...labels, timeZone, hourCycle: 'h23' })
  const nameOf = (plot, index) => {
    const start = plot.data[2][index]
    return start ? format.format(new Date(start)) : ''
  }
  const axis = {
    stroke: color('--quiet'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line'), width: 1 },
  }
  return {
    width: place.clientWidth,
    height: HEIGHT,
    cursor: { y: false, drag: { setScale: false } },
    scales: {
      x: { time: false, range: (_, first, last) => [first - 0.5, last + 0.5] },
      y: { range: (_, _low, high) => [0, Math.max(high ?? 0, 4)] },
    },
    axes: [
      {
        ...axis,
        space: 90,
        grid: { show: false },
        values: (plot, ticks) => ticks.map((tick) => nameOf(plot, tick)),
      },
      {
        ...axis,
        values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString('en') : '')),
      },
    ],
    series: [
      { label: 'From', value: (plot, index) => (index == null ? '–' : nameOf(plot, index)) },
      {
        label: 'Sold',
        fill: color('--accent'),
        stroke: color('--accent'),
        width: 0,
        points: { show: false },
        paths: uPlot.paths.bars({ size: [0.7, 40] }),
        value: (_, value) => (value == null ? '–' : value.toLocaleString('en')),
      },
    ],
  }
}

/** The same for who can't see it. */
function textOf(buckets, timeZone, labels) {
  const format = new Intl.DateTimeFormat('en', { ...labels, timeZone, hourCycle: 'h23' })
  const sold = buckets.filter(({ value }) => value !== 0)
  if (sold.length === 0) return 'Nothing was sold.'
  return sold.map(({ start, value }) => `${format.format(new Date(start))}: ${value}`).join('; ')
}
