// A blog whose entries count their readers, in all and by hour.

import { useState } from 'preact/hooks'
import { Bars } from './bars.js'
import { Freshness, useLive } from './live.js'
import { amount, client, html, number, Outcome, ordinal, show, useAction } from './page.js'

const entries = {
  'The lost reader':
    'Two pages read 41, both add one, and both write 42: one reader is lost. Nth adds in the database instead, and tells each page what its own addition made: 42 and 43.',
  'What is read now':
    'A total only grows. Totals by hour tell what is read now and what was read last night, and they cost nothing more: the same statement adds to both.',
  'A thousand at once':
    'When a link spreads, a thousand readers come in the same second. Their hits wait for each other for a moment, go to the database together, and each still gets a number.',
}

const titles = Object.keys(entries)

/** What is shown of an entry; an answer has all of it, so that an event from before shows nothing. */
const FIELDS = `
  id name revision value timeZone valueIn(period: HOUR)
  hours: history(period: HOUR, last: 48) { start value }
`

const HITS = `subscription Hits($names: [String!]!) {
  counters(names: $names, namespace: "hits") { ${FIELDS} }
}`

const READ = `mutation Read($title: String!) {
  increment(name: $title, namespace: "hits") { value valueIn(period: HOUR) counter { ${FIELDS} } }
}`

function Blog() {
  const { states: counters, show: update, live } = useLive(HITS, { names: titles })
  const [chosen, choose] = useState()
  const charted = chosen ?? titles[0]
  const { timeZone, hours } = counters[charted] ?? {}
  const entryOf = (title) =>
    html`<${Entry} key=${title} counter=${counters[title]} isOpen=${title === chosen} ...${{ title, choose, update }} />`
  return html`
    <div class="halves tiles">
      <div class="stack">${titles.map(entryOf)}</div>
      <${Bars} id="hours" caption=${`Readers of “${charted}” in each of the last 48 hours`} period="HOUR" buckets=${hours}
        timeZone=${timeZone} amountOf=${readers} none="Nobody has read it yet in this time." untracked="Hours are not recorded here." />
    </div>
    <${Freshness} live=${live} />`
}

const readers = (count) => amount(count, 'reader')

function Entry({ title, counter, isOpen, choose, update }) {
  const remember = `read ${title}`
  const action = useAction(async () => {
    const { increment } = await client.mutate(READ, { title }, { remember })
    update([increment.counter])
    return increment
  }, remember)

  function toggle() {
    choose(isOpen ? undefined : title)
    if (!isOpen) action.start()
  }

  const thisHour = counter?.valueIn == null ? '' : `, ${number(counter.valueIn)} this hour`
  const readText = ({ value, valueIn }) =>
    `You are reader ${number(value)}${valueIn === null ? '' : `, the ${ordinal(valueIn)} this hour`}.`
  return html`
    <article class="card">
      <h2><button class="open" aria-expanded=${isOpen} onClick=${toggle}>${title}</button></h2>
      <p class="stock">${counter && readers(counter.value) + thisHour}</p>
      ${isOpen && html`<p>${entries[title]}</p>`}
      <${Outcome} action=${action} on=${title} busy="Counting…" text=${readText} failed="Not counted" doubt="The connection broke: you may or may not be counted." />
    </article>`
}

show(Blog)
