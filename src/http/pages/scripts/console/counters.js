// The counters of a namespace, and one of them: its value, its history, its definition, and what can be done to it.

import { Bars, CHARTS } from '/bars.js'
import { Freshness } from '/live.js'
import { client, html, isRefused, number, ordinal, useAction, useRead } from '/page.js'
import { UseIt } from '/useIt.js'
import { Detail, Field, MutationForm } from './forms.js'
import * as parts from './parts.js'

const { addedText, Moving, NameLink, numberText, Section, Time } = parts

const ORDERS = [
  ['NAME_ASC', 'Name'],
  ['VALUE_DESC', 'Highest value first'],
  ['VALUE_ASC', 'Lowest value first'],
  ['UPDATED_AT_DESC', 'Last changed first'],
]

const ROW = 'id revision value updatedAt valueIn(period: DAY)'
const COUNTERS = `query Counters($name: String!, ${parts.NAME_VARIABLES}, $orderBy: CounterOrder!, $period: Period, ${parts.PAGE_VARIABLES}) {
  namespace(name: $name) {
    leaderboards
    counters(${parts.NAME_ARGUMENTS}, orderBy: $orderBy, period: $period, ${parts.PAGE_ARGUMENTS}) {
      edges { place listed: value node { name ${ROW} } } ${parts.PAGE_INFO}
    }
  }
}`
const LIVE_COUNTERS = `subscription LiveCounters($ids: [ID!]!) { nodes(ids: $ids) { ... on Counter { ${ROW} } } }`

/** The counters of a page, each with its place, and what it has in the order of the list. */
const pageOf = ({ namespace }) =>
  namespace?.counters && {
    ...{ leaderboards: namespace.leaderboards, pageInfo: namespace.counters.pageInfo },
    nodes: namespace.counters.edges.map(({ node, ...edge }) => ({ ...edge, ...node })),
  }

const thisPeriod = (period) => (period === 'DAY' ? 'today' : `this ${CHARTS[period].label.toLowerCase()}`)

export const countersView = {
  title: 'Counters of',
  named: 'namespace',
  read({ namespace: name, contains, order = 'NAME_ASC', ...page }, signal) {
    const sort = CHARTS[order] ? { orderBy: 'VALUE_DESC', period: order } : { orderBy: order }
    return parts.readList(COUNTERS, { name, contains, ...sort, ...parts.pageIn(page) }, signal, pageOf)
  },
  View({ address, data: { connection, refusal } }) {
    const { namespace, order, contains } = address
    const { live, nodes } = parts.useNodes(LIVE_COUNTERS, connection?.nodes ?? [])
    const leaderboards = connection?.leaderboards ?? []
    const orders = [...ORDERS, ...leaderboards.map((period) => [period, `Most added ${thisPeriod(period)}`])]
    const hasPlaces = nodes.some(({ place }) => place != null)
    const rowOf = ({ name, place, listed, value, updatedAt, valueIn }) => [
      html`<${NameLink} namespace=${namespace} counter=${name} text=${name} />`,
      CHARTS[order] ? addedText(listed) : html`<${Moving} value=${value} />`,
      addedText(valueIn),
      hasPlaces ? numberText(place) : html`<${Time} at=${updatedAt} />`,
    ]
    const last = hasPlaces ? ['Place', 'amount'] : ['Last change', 'amount wide']
    return html`
      ${contains === undefined && (nodes.length > 0 || order) && html`<${OrderField} ...${{ address, orders }} />`}
      <${parts.List} ...${{ address, refusal, rowOf }} connection=${connection && { ...connection, nodes }} caption="Counters"
        columns=${[['Counter'], [CHARTS[order] ? 'Added' : 'Value', 'amount'], ['Today', 'amount wide'], last]}
        empty=${CHARTS[order] ? 'Nothing is on this leaderboard yet.' : 'No counter was written or defined in this namespace. Type a name above to open it: it is created on first use.'} />
      ${contains && html`<${parts.Elsewhere} links=${[[`the counter ${parts.quoted(contains)}`, { namespace, counter: contains }]]} />`}
      ${nodes.length > 0 && html`<${Freshness} live=${live} />`}`
  },
}

function OrderField({ address, orders }) {
  const change = ({ target: { value } }) => parts.go({ namespace: address.namespace, order: value })
  return html`
    <div class="line order">
      <label class="muted" for="order">Order</label>
      <select id="order" value=${address.order ?? orders[0][0]} onChange=${change}>
        ${orders.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
      </select>
    </div>`
}

const STATE = 'id revision value updatedAt createdAt'
const DEFINITION = 'minValue maxValue overflow oncePer slots timeZone periods { period keepDays }'
const CHANGE = 'value previousValue appliedDelta'

const COUNTER = `query Counter($name: String!, $namespace: String!) {
  counter(name: $name, namespace: $namespace) { ${STATE} ${DEFINITION} }
}`

const LIVE_COUNTER = `subscription LiveCounter($ids: [ID!]!, $period: Period!, $last: Int!) {
  nodes(ids: $ids) {
    ... on Counter {
      ${STATE} held heldDown timeZone limits { period max used held resetsAt } today: valueIn(period: DAY) month: valueIn(period: MONTH)
      history(period: $period, last: $last) { start value }
    }
  }
}`

export const counterView = {
  title: 'Counter',
  named: 'counter',
  read: ({ namespace, counter: name }, signal) => client.query(COUNTER, { name, namespace }, { signal }),
  View({ address: { namespace, counter: name, ...address }, data: { counter }, readAgain }) {
    const period = CHARTS[address.period] ? address.period : 'DAY'
    // A definition may change the totals: with other variables, the subscription sends all of them again.
    const { periods, timeZone: definedZone } = counter
    const variables = { period, last: CHARTS[period].last, periods, definedZone }
    const { live, nodes } = parts.useNodes(LIVE_COUNTER, [counter], variables)
    const [{ value, today, month, createdAt, updatedAt, timeZone, limits, held, heldDown, history }] = nodes
    const changed = ({ value, previousValue, appliedDelta }) =>
      `${numberText(value)}: ${numberText(appliedDelta)} added to ${numberText(previousValue)}.`
    const totals = Object.entries({ today, 'this month': month }).filter(([, total]) => total != null)
    const limitOf = ({ period, max, used, held, resetsAt }) => html`
      <p>${numberText(used)} of ${numberText(max)} ${thisPeriod(period)}${held > 0 && `, ${numberText(held)} held`}, until <${Time} at=${resetsAt} />.</p>`
    const times = html`Created <${Time} at=${createdAt} />, last change <${Time} at=${updatedAt} />.`
    const panel = html`
      <${parts.Value} value=${value} />
      <p class="muted">${totals.map(([when, total]) => `${addedText(total)} ${when}`).join(', ') || '\u00a0'}</p>
      ${limits?.map(limitOf)}
      ${(held > 0 || heldDown > 0) && html`<${Holds} key=${`${held} ${heldDown}`} ...${{ namespace, name, held, heldDown }} />`}
      <${Places} ...${{ namespace, name }} />
      <p class="muted">${createdAt === null ? 'Neither written nor defined yet: it is created on first use.' : times}</p>
      <div class="line tries">
        <${MutationForm} kind="line" submit="Increment" mutation="increment" selection=${CHANGE} done=${changed} />
        <${MutationForm} kind="line" submit="Add" mutation="incrementBy" selection=${CHANGE} done=${changed}>
          <${Field} id="delta" label="Add" kind="number" value="10" />
        <//>
      </div>`
    const reset = {
      ...{ name, submit: 'Reset', mutation: 'reset', selection: CHANGE },
      text: 'Its value is set. Its history and its definition stay as they are.',
      fields: html`
        <${Field} id="to" label="New value" kind="number" value="0" />
        <${Field} id="expectedValue" label="Only if it still is" kind="number" value=${value} hint="Empty: any value." />`,
      done: (change) => `Set to ${numberText(change.value)}; it was ${numberText(change.previousValue)}.`,
    }
    const deletion = {
      ...{ name, submit: 'Delete', mutation: 'deleteCounter', selection: 'value' },
      text: 'Its value, its definition and its history are deleted, and can’t be restored.',
      done: () => parts.leave('counter', name, { namespace }),
    }
    const definition = {
      ...{ definition: counter, mutation: 'defineCounter', selection: DEFINITION, fields: FIELDS },
      saved: readAgain,
    }
    return html`
      <${Detail} ...${{ panel, live, definition }} questions=${[reset, deletion]}>
        <${UseIt} heading=${html`<h3>Use it</h3>`} ...${{ namespace, name }} />
        <${Section} title="History"><${History} ...${{ period, history, timeZone }} /><//>
      <//>`
  },
}

const HOLDS = `query Holds($name: String!, $namespace: String!) {
  counter(name: $name, namespace: $namespace) {
    holds(first: 20) { nodes { id expiresAt deltas { delta counter { name } } } pageInfo { hasNextPage } }
  }
}`
const RELEASE = 'mutation Release($id: ID!) { releaseHold(id: $id) { state } }'

/** What is held, and by which holds, if the key may see them. */
function Holds({ namespace, name, held, heldDown }) {
  const read = (signal) => client.query(HOLDS, { name, namespace }, { signal })
  const refused = (error) => (isRefused(error) ? {} : Promise.reject(error))
  const { data } = useRead((signal) => read(signal).catch(refused))
  const { nodes = [], pageInfo } = data?.counter?.holds ?? {}
  const { start: release, error } = useAction(({ id }) =>
    client.mutate(RELEASE, { id }, { idempotencyKey: null }),
  )
  const itemOf = (hold) => {
    const { delta } = hold.deltas.find(({ counter }) => counter?.name === name) ?? hold.deltas[0]
    return html`
      <li key=${hold.id}>${addedText(delta)} until <${Time} at=${hold.expiresAt} /> <button type="button" class="link" onClick=${() => release(hold)}>Release</button></li>`
  }
  const texts = [held > 0 && numberText(held), heldDown > 0 && addedText(-heldDown)].filter(Boolean)
  return html`
    <p>${texts.join(' and ')} held, and not counted yet</p>
    ${nodes.length > 0 && html`<ul class="list holds">${nodes.map(itemOf)}${pageInfo.hasNextPage && html`<li>…</li>`}</ul>`}
    ${error && html`<p class="problem" role="alert">Not released: ${error.message}</p>`}`
}

const PLACES = `query Places($name: String!, $namespace: String!) {
  counter(name: $name, namespace: $namespace) {
    VALUE_DESC: place ${Object.keys(CHARTS).map((period) => `${period}: place(period: ${period})`)}
  }
}`

/** Where it is in orders of its namespace, if the key may see the names of all others. */
function Places({ namespace, name }) {
  const read = (signal) => client.query(PLACES, { name, namespace }, { signal })
  const refused = (error) => (isRefused(error) ? {} : Promise.reject(error))
  const { data, readAgain } = useRead((signal) => read(signal).catch(refused))
  parts.useLookingAgain(readAgain)
  const places = Object.entries(data?.counter ?? {}).filter(([, place]) => place !== null)
  const linkOf = ([order, place]) => html`
    <a href=${parts.addressOf({ namespace, order })}>${ordinal(place)} ${CHARTS[order] ? thisPeriod(order) : 'by value'}</a>`
  return html`<p class="line muted">${places.length > 0 ? places.map(linkOf) : '\u00a0'}</p>`
}

const ONCE = { '': 'Ever', HOUR: 'An hour', DAY: 'A day', WEEK: 'A week', MONTH: 'A month', YEAR: 'A year' }
const FIELDS = [
  ['minValue', 'Lowest value', { kind: 'number', placeholder: 'none' }],
  ['maxValue', 'Highest value', { kind: 'number', placeholder: 'none' }],
  ['overflow', 'At a bound', { kind: { REJECT: 'Reject', SATURATE: 'Add up to it' } }],
  ['oncePer', 'A subject counts once', { kind: ONCE }],
  ['timeZone', 'Time zone', { hint: 'Empty: the namespace’s.' }],
  ['slots', 'Slots', { kind: 'number', hint: 'Above 1, numbers are not unique, and there are no bounds.' }],
]

/** `history` is undefined until it was read; null if neither this period nor a finer one is kept. */
function History({ period, history, timeZone }) {
  const { last, label } = CHARTS[period]
  const change = ({ target }) => parts.go({ ...parts.readAddress(), period: target.value }, true)
  const choiceOf = ([name, { label }]) => html`
    <label><input type="radio" name="period" value=${name} checked=${name === period} onChange=${change} />${label}</label>`
  const caption = `Added in each of the last ${last} ${label.toLowerCase()}s`
  return html`
    <fieldset class="line segments"><legend class="unseen">Totals of each</legend>${Object.entries(CHARTS).map(choiceOf)}</fieldset>
    <${Bars} key=${period} ...${{ caption, period, timeZone }} amountOf=${(value) => `${number(value)} added`}
      buckets=${history && history.length !== last ? undefined : history} none="Nothing was added in this time."
      untracked="The definition keeps neither these totals nor finer ones." />`
}
