// The home of the console, which shows what is happening, and the search over all names.

import { useRef } from 'preact/hooks'
import { Freshness } from '/live.js'
import { html, sized } from '/page.js'
import { First } from './first.js'
import * as parts from './parts.js'

const { addedText, Elsewhere, List, Name, NameLink, numberText, quoted, Time, Value } = parts

/** Namespaces on a page: each takes a statement or two. */
const NAMESPACES = 20

/** How many counters are shown as moving. */
const MOVING = 8

const HOME = `query Home(${parts.PAGE_VARIABLES}) {
  namespaces(${parts.PAGE_ARGUMENTS}) {
    nodes {
      name timeZone
      counters(orderBy: UPDATED_AT_DESC, first: ${MOVING}) { nodes { id name revision value updatedAt } }
    }
    ${parts.PAGE_INFO}
  }
}`

const LIVE = `subscription LiveHome($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on Counter { id revision value updatedAt valueIn(period: DAY) history(period: HOUR, last: 24) { value } }
  }
}`

export const homeView = {
  title: 'What is happening',
  read: (address, signal) =>
    parts.readList(HOME, parts.pageIn(address, NAMESPACES), signal, ({ namespaces }) => namespaces),
  View({ address, data, readAgain }) {
    parts.useLookingAgain(readAgain)
    const rowOf = ({ name, timeZone, counters }) => [
      html`<${NameLink} namespace=${name} text=${name} />`,
      html`<${Time} at=${counters?.nodes[0]?.updatedAt} never="–" />`,
      timeZone,
    ]
    const isEmpty = data.connection?.nodes.length === 0 && !address.after && !address.before
    if (isEmpty) return html`<${First} />`
    return html`
      <${MovingCounters} namespaces=${data.connection?.nodes ?? []} />
      <h3>Namespaces</h3>
      <${List} ...${{ address, rowOf, ...data }} caption="Namespaces"
        columns=${[['Namespace'], ['Last change', 'amount'], ['Time zone of new names', 'wide']]} />`
  },
}

/** The counters that changed last. They keep their places until another one has changed. */
function MovingCounters({ namespaces }) {
  const shown = useRef([])
  const of = ({ name, counters }) => counters?.nodes.map((node) => ({ ...node, namespace: name })) ?? []
  const changed = namespaces.flatMap(of).filter(({ updatedAt }) => updatedAt !== null)
  changed.sort((one, other) => other.updatedAt.localeCompare(one.updatedAt)).splice(MOVING)
  const isShown = ({ id }) => shown.current.some((counter) => counter.id === id)
  if (changed.length !== shown.current.length || !changed.every(isShown)) shown.current = changed
  const { live, nodes } = parts.useNodes(LIVE, shown.current)
  const tileOf = ({ id, name, namespace, value, updatedAt, valueIn, history }) => {
    const hours = history?.map(({ value }) => Math.max(value, 0)) ?? []
    const barOf = (added, hour) => {
      const height = 4 + (96 * added) / Math.max(1, ...hours)
      return html`<rect x=${hour + 0.1} width="0.8" y=${100 - height} height=${height} />`
    }
    return html`
      <li class="card" key=${id}>
        <p><${NameLink} namespace=${namespace} counter=${name} text=${name} /></p>
        <p class="line hint ends"><${Name} text=${namespace} /><${Time} at=${updatedAt} /></p>
        <${Value} value=${value} />
        <svg aria-hidden="true" height="32" viewBox="0 0 24 100" preserveAspectRatio="none">${hours.map(barOf)}</svg>
        <p class="hint">${valueIn == null ? '\u00a0' : `${addedText(valueIn)} today`}</p>
      </li>`
  }
  if (nodes.length === 0) return null
  const [longest] = nodes
    .map(({ value }) => numberText(value))
    .sort((one, other) => other.length - one.length)
  return html`
    <ul class="list tiles moving" style=${sized(longest)} aria-label="Counters that changed last">${nodes.map(tileOf)}</ul>
    <${Freshness} live=${live} />`
}

/** Items of each kind that a search shows in a namespace. */
const FOUND = 6

const SEARCH = `query Search(${parts.NAME_VARIABLES}, ${parts.PAGE_VARIABLES}) {
  named: namespaces(${parts.NAME_ARGUMENTS}, first: ${FOUND}) { nodes { id name } }
  namespaces(${parts.PAGE_ARGUMENTS}) {
    nodes {
      name
      counters(${parts.NAME_ARGUMENTS}, first: ${FOUND}) { nodes { id name value } }
      sequences(${parts.NAME_ARGUMENTS}, first: ${FOUND}) { nodes { id name } }
    }
    ${parts.PAGE_INFO}
  }
}`

function connectionIn({ named, namespaces }) {
  const of = (kind, list, namespace) => list?.nodes.map((node) => ({ ...node, kind, namespace })) ?? []
  const within = ({ name, counters, sequences }) => [
    ...of('counter', counters, name),
    ...of('sequence', sequences, name),
  ]
  const nodes = [...of('namespace', named), ...(namespaces?.nodes.flatMap(within) ?? [])]
  return namespaces && { nodes, pageInfo: namespaces.pageInfo }
}

export const searchView = {
  title: 'Names that contain',
  named: 'contains',
  read: ({ contains, ...page }, signal) =>
    parts.readList(SEARCH, { contains, ...parts.pageIn(page, NAMESPACES) }, signal, connectionIn),
  View({ address, data }) {
    const { contains } = address
    const rowOf = ({ name, kind, value, namespace }) => [
      html`<${NameLink} ...${{ namespace, [kind]: name }} text=${name} />`,
      value === undefined ? kind : numberText(value),
      namespace !== undefined &&
        html`<${NameLink} ...${{ namespace, contains, list: listOf[kind] }} text=${namespace} />`,
    ]
    const links = [
      [`the namespace ${quoted(contains)}`, { namespace: contains }],
      [`the counter ${quoted(contains)} in default`, { namespace: 'default', counter: contains }],
    ]
    return html`
      <${List} ...${{ address, rowOf, ...data }} caption="Found" columns=${[['Name'], ['Value', 'amount'], ['Namespace']]} />
      <${Elsewhere} links=${links}>At most ${FOUND} of each kind are shown in a namespace: open it for more.<//>`
  },
}

const listOf = { sequence: 'sequences' }
