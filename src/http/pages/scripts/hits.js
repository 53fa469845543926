// A blog whose entries count their readers, in all and by hour.

import { useMemo, useReducer, useState } from 'preact/hooks'
import { newer } from '/client.js'
import { Bars } from './bars.js'
import {
  amount,
  client,
  dateFormat,
  Freshness,
  html,
  KeyField,
  number,
  Outcome,
  ordinal,
  render,
  useAction,
  useLive,
} from './page.js'

/** The entries: their titles, and what they say. */
const entries = new Map([
  [
    'The lost reader',
    'Two pages read 41, both add one, and both write 42: one reader is lost. Nth adds in the database instead, and tells each page what its own addition made: 42 and 43.',
  ],
  [
    'What is read now',
    'A total only grows. Totals by hour tell what is read now and what was read last night, and they cost nothing more: the same statement adds to both.',
  ],
  [
    'A thousand at once',
    'When a link spreads, a thousand readers come in the same second. Their hits wait for each other for a moment, go to the database together, and each still gets a number.',
  ],
])

/** What is shown of an entry; an answer has all of it, so that an event from before shows nothing. */
const FIELDS = `
  id
  name
  revision
  value
  timeZone
  valueIn(period: HOUR)
  hours: history(period: HOUR, last: 48) { start value }
`

const HITS = `subscription Hits($names: [String!]!) {
  counters(names: $names, namespace: "hits") { ${FIELDS} }
}`

function Blog() {
  const [counters, show] = useReducer(
    (all, { name, ...state }) => ({ ...all, [name]: newer(all[name], state) }),
    {},
  )
  const [chosen, choose] = useState()
  const live = useLive(HITS, { names: [...entries.keys()] }, (data) =>
    data.counters.filter(Boolean).forEach(show),
  )
  const charted = chosen ?? [...entries.keys()][0]
  const { timeZone, hours } = counters[charted] ?? {}
  const hour = useMemo(
    () => dateFormat({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }, timeZone),
    [timeZone],
  )
  return html`
    <${KeyField} />
    <div class="stack">
      ${[...entries.keys()].map((title) => html`<${Entry} key=${title} title=${title} counter=${counters[title]} isOpen=${title === chosen} choose=${choose} show=${show} />`)}
    </div>
    <${Bars} id="hours" caption=${`Readers of “${charted}” in each of the last 48 hours`} label="Hour" buckets=${hours} nameOf=${hour} amountOf=${readers} none="Nobody has read it yet in this time." untracked="Hours are not recorded here." />
    <p class="zone quietly">${timeZone && `Hours of the time zone ${timeZone}.`}</p>
    <${Freshness} live=${live} />`
}

const readers = (count) => amount(count, 'reader')

function Entry({ title, counter, isOpen, choose, show }) {
  const name = `read ${title}`
  const action = useAction(async () => {
    const { increment } = await client.mutate(
      `mutation Read($title: String!) {
        increment(name: $title, namespace: "hits") { value valueIn(period: HOUR) counter { ${FIELDS} } }
      }`,
      { title },
      { remember: name },
    )
    if (increment.counter) show(increment.counter)
    return increment
  }, name)

  function toggle() {
    choose(isOpen ? undefined : title)
    if (!isOpen) action.start()
  }

  return html`
    <article class="card entry">
      <h2><button class="open" aria-expanded=${isOpen} onClick=${toggle}>${title}</button></h2>
      <p class="stock">${counter && `${readers(counter.value)}${counter.valueIn == null ? '' : `, ${number(counter.valueIn)} this hour`}`}</p>
      ${isOpen && html`<p class="body">${entries.get(title)}</p>`}
      <${Outcome} action=${action} on=${title} busy="Counting…" text=${readText} failed="Not counted" doubt="The connection broke: you may or may not be counted." />
    </article>`
}

function readText({ value, valueIn }) {
  return `You are reader ${number(value)}${valueIn === null ? '' : `, the ${ordinal(valueIn)} this hour`}.`
}

render(html`<${Blog} />`, document.querySelector('#app'))
