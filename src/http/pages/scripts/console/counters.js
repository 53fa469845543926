// The counters of a namespace, and one of them: its value, its history, its definition, and what can be done to it.

import { useState } from 'preact/hooks'
import { Bars, DAY, HOUR } from '/bars.js'
import { client, html, number } from '/page.js'
import { Dangers, DefinitionForm, Detail, Field, MutationForm } from './forms.js'
import * as parts from './parts.js'

const { addedText, Live, Moving, NameLink, numberText, Section, Time } = parts

const ORDERS = [
  ['NAME_ASC', 'Name'],
  ['VALUE_DESC', 'Highest value first'],
  ['VALUE_ASC', 'Lowest value first'],
  ['UPDATED_AT_DESC', 'Last changed first'],
]

const ROW = 'id revision value updatedAt valueIn(period: DAY)'

const COUNTERS = `query Counters($name: String!, $prefix: String!, $order: CounterOrder!, ${parts.PAGE_VARIABLES}) {
  namespace(name: $name) {
    counters(prefix: $prefix, orderBy: $order, ${parts.PAGE_ARGUMENTS}) { nodes { name ${ROW} } ${parts.PAGE_INFO} }
  }
}`

const LIVE_COUNTERS = `subscription LiveCounters($ids: [ID!]!) { nodes(ids: $ids) { ... on Counter { ${ROW} } } }`

export const countersView = {
  title: 'Counters of',
  named: 'namespace',
  summaryOf: ({ namespace }) => parts.summaryOf(namespace?.counters),
  read: ({ namespace: name, prefix = '', order = 'NAME_ASC', ...page }, signal) =>
    parts.readList(COUNTERS, { name, prefix, order, ...parts.pageIn(page) }, signal),
  View({ address, data: { namespace: read, refusal } }) {
    const { namespace } = address
    const connection = read?.counters
    const { live, nodeOf } = parts.useNodes(LIVE_COUNTERS, connection?.nodes ?? [])
    const rowOf = ({ id, name }) => {
      const { value, updatedAt, valueIn } = nodeOf(id)
      const link = html`<${NameLink} namespace=${namespace} counter=${name} text=${name} />`
      return [link, html`<${Moving} value=${value} />`, addedText(valueIn), html`<${Time} at=${updatedAt} />`]
    }
    return html`
      <${parts.NameForm} address=${address} orders=${ORDERS} hint="Open also takes a new name: a counter is created on first use."
        open=${(counter) => ({ namespace, counter })} />
      <${parts.List} ...${{ address, connection, refusal, rowOf }} caption="Counters"
        columns=${[['Counter'], ['Value', 'amount'], ['Today', 'amount wide'], ['Last change', 'amount']]}
        empty="No counter was written or defined in this namespace." />
      ${connection?.nodes.length > 0 && html`<${Live} live=${live} />`}`
  },
}

const STATE = 'id revision value updatedAt createdAt'
const DEFINITION = 'minValue maxValue overflow slots timeZone periods { period keepDays }'
const CHANGE = 'value previousValue appliedDelta'

const COUNTER = `query Counter($name: String!, $namespace: String!) {
  counter(name: $name, namespace: $namespace) { ${STATE} ${DEFINITION} }
}`

const LIVE_COUNTER = `subscription LiveCounter($ids: [ID!]!, $period: Period!, $last: Int!) {
  nodes(ids: $ids) {
    ... on Counter {
      ${STATE} timeZone today: valueIn(period: DAY) month: valueIn(period: MONTH)
      history(period: $period, last: $last) { start value }
    }
  }
}`

export const counterView = {
  title: 'Counter',
  named: 'counter',
  read: ({ namespace, counter: name }, signal) => client.query(COUNTER, { name, namespace }, { signal }),
  View({ address: { namespace, counter: name, ...address }, data: { counter } }) {
    const [{ definition, saves }, setSaved] = useState({ definition: counter, saves: 0 })
    const [period, setPeriod] = useState(CHARTS[address.period] ? address.period : 'DAY')
    // A definition may change the totals: with another variable, the subscription sends all of them again.
    const variables = { period, last: CHARTS[period].last, saves }
    const { live, nodeOf } = parts.useNodes(LIVE_COUNTER, [counter], variables)
    const { value, today, month, createdAt, updatedAt, timeZone, history } = nodeOf(counter.id)
    const changed = ({ value, previousValue, appliedDelta }) =>
      `${numberText(value)}: ${numberText(appliedDelta)} added to ${numberText(previousValue)}.`
    const totals = Object.entries({ today, 'this month': month }).filter(([, total]) => total != null)
    const times = html`Created <${Time} at=${createdAt} />, last change <${Time} at=${updatedAt} />.`
    const panel = html`
      <p class="value"><${Moving} value=${value} /></p>
      <p class="quietly">${totals.map(([when, total]) => `${addedText(total)} ${when}`).join(', ') || '\u00a0'}</p>
      <p class="quietly">${createdAt === null ? 'Neither written nor defined yet: it is created on first use.' : times}</p>
      <div class="line tries">
        <${MutationForm} submit="Increment" mutation="increment" selection=${CHANGE} done=${changed} />
        <${MutationForm} class="line" submit="Add" mutation="incrementBy" selection=${CHANGE} done=${changed}>
          <${Field} id="delta" label="Add" kind="number" value="10" />
        <//>
      </div>`
    const reset = {
      ...{ name, submit: 'Reset', mutation: 'reset', selection: CHANGE },
      text: 'Its value is set. Its history and its definition stay as they are.',
      fields: html`<${Field} id="to" label="New value" kind="number" value="0" />`,
      done: (change) => `Set to ${numberText(change.value)}; it was ${numberText(change.previousValue)}.`,
    }
    const deletion = {
      ...{ name, submit: 'Delete', mutation: 'deleteCounter', selection: 'value' },
      text: 'Its value, its definition and its history are deleted, and can’t be restored.',
      done: () => parts.leave('counter', name, { namespace }),
    }
    return html`
      <${Detail} panel=${panel}>
        <${Section} title="History"><${History} ...${{ period, history, timeZone }} choose=${setPeriod} /><//>
        <${DefinitionForm} ...${{ definition }} mutation="defineCounter" selection=${DEFINITION}
          fields=${FIELDS} save=${(definition) => setSaved({ definition, saves: saves + 1 })} />
        <${Dangers} title="Reset or delete" questions=${[reset, deletion]} />
        <${Live} live=${live} />
      <//>`
  },
}

const OVERFLOWS = { REJECT: 'Reject the addition', SATURATE: 'Add up to the bound' }

const FIELDS = [
  ['minValue', 'Lowest value', { kind: 'number', placeholder: 'none' }],
  ['maxValue', 'Highest value', { kind: 'number', placeholder: 'none' }],
  ['overflow', 'At a bound', { kind: OVERFLOWS }],
  ['timeZone', 'Time zone', { hint: 'Empty: the namespace’s.' }],
  ['slots', 'Slots', { kind: 'number', hint: 'Above 1, numbers are not unique, and there are no bounds.' }],
]

const CHARTS = {
  HOUR: { last: 48, text: 'Hour', labels: HOUR },
  DAY: { last: 30, text: 'Day', labels: DAY },
  WEEK: { last: 26, text: 'Week', labels: DAY },
  MONTH: { last: 24, text: 'Month', labels: { month: 'short', year: 'numeric' } },
  YEAR: { last: 10, text: 'Year', labels: { year: 'numeric' } },
}

/** `history` is undefined until it was read; null if neither this period nor a finer one is kept. */
function History({ period, history, timeZone, choose }) {
  const { last, text, labels } = CHARTS[period]
  function change({ target }) {
    // The view is the same, so it isn't shown anew.
    window.history.replaceState(null, '', parts.addressOf({ ...parts.readAddress(), period: target.value }))
    choose(target.value)
  }
  const choiceOf = ([name, { text }]) => html`
    <label><input type="radio" name="period" value=${name} checked=${name === period} onChange=${change} />${text}</label>`
  const caption = `Added in each of the last ${last} ${text.toLowerCase()}s`
  return html`
    <fieldset class="line segments"><legend class="unseen">Totals of each</legend>${Object.entries(CHARTS).map(choiceOf)}</fieldset>
    <${Bars} key=${period} ...${{ caption, label: text, parts: labels, timeZone }} amountOf=${(value) => `${number(value)} added`}
      buckets=${history && history.length !== last ? undefined : history} none="Nothing was added in this time."
      untracked="The definition keeps neither these totals nor finer ones." />
    <p class="hint">Periods of the time zone ${timeZone}.</p>`
}
