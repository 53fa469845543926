// The home of the console, which shows what is happening, and the search over all names.

import { useEffect, useState } from 'preact/hooks'
import { Freshness, html } from '/page.js'
import * as parts from './parts.js'

const { addedText, addressOf, List, Moving, Name, NameLink, quoted, readList, Time } = parts

/** Namespaces on a page: each takes a statement or two. */
const NAMESPACES = 20

/** How many counters are shown as moving, and how often the home looks for others that have changed, in milliseconds. */
const MOVING = 8
const LOOK_MS = 5000

const HOME = `query Home(${parts.PAGE_VARIABLES}) {
  namespaces(${parts.PAGE_ARGUMENTS}) {
    nodes {
      name timeZone
      counters(orderBy: UPDATED_AT_DESC, first: ${MOVING}) { nodes { id name revision value updatedAt } }
    }
    ${parts.PAGE_INFO}
  }
}`

const LIVE_HOME = `subscription LiveHome($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on Counter { id revision value updatedAt valueIn(period: DAY) history(period: HOUR, last: 24) { value } }
  }
}`

const readHome = (address, signal) => readList(HOME, parts.pageIn(address, NAMESPACES), signal)

export const homeView = {
  id: 'home',
  title: 'What is happening',
  read: readHome,
  summaryOf: ({ namespaces }) => parts.summaryOf(namespaces),
  View({ address, data }) {
    const [latest, setLatest] = useState(data)
    useEffect(() => {
      setLatest(data)
      const leaving = new AbortController()
      // If it fails, the subscription says why.
      const look = () => document.hidden || readHome(address, leaving.signal).then(setLatest, () => {})
      const timer = setInterval(look, LOOK_MS)
      return () => {
        clearInterval(timer)
        leaving.abort()
      }
    }, [data])
    const { namespaces, refusal } = latest
    const rowOf = ({ name, timeZone, counters }) => [
      html`<${NameLink} namespace=${name} text=${name} />`,
      html`<${Time} at=${counters?.nodes[0]?.updatedAt} never="–" />`,
      timeZone,
    ]
    const open = html`<a href=${addressOf({ namespace: 'default' })}>Open the namespace default</a>`
    return html`
      <${MovingCounters} namespaces=${namespaces?.nodes ?? []} />
      <h3>Namespaces</h3>
      <${List} ...${{ address, refusal, rowOf }} connection=${namespaces} caption="Namespaces"
        columns=${[['Namespace'], ['Last change', 'amount'], ['Time zone of new names', 'wide']]}
        empty=${html`Nothing has been counted or numbered yet. ${open}, and create a counter or a sequence.`} />`
  },
}

/** The counters that changed last. They keep their places until another one has changed. */
function MovingCounters({ namespaces }) {
  const [shown, setShown] = useState([])
  const changed = namespaces
    .flatMap(({ name: namespace, counters }) =>
      (counters?.nodes ?? []).map((node) => ({ ...node, namespace })),
    )
    .filter(({ updatedAt }) => updatedAt !== null)
    .sort((one, other) => other.updatedAt.localeCompare(one.updatedAt))
    .slice(0, MOVING)
  const isSame =
    changed.length === shown.length && changed.every(({ id }) => shown.some((old) => old.id === id))
  const counters = isSame ? shown : changed
  useEffect(() => setShown(counters), [counters])
  const { live, nodeOf } = parts.useNodes(LIVE_HOME, counters)
  const tileOf = ({ id, name, namespace }) => {
    const { value, updatedAt, valueIn, history = [] } = nodeOf(id)
    const values = history?.map(({ value }) => Math.max(value, 0)) ?? []
    return html`
      <li class="card" key=${id}>
        <p><${NameLink} namespace=${namespace} counter=${name} text=${name} /></p>
        <p class="hint"><${Name} text=${namespace} /></p>
        <p class="value"><${Moving} value=${value} /></p>
        <svg aria-hidden="true" viewBox="0 0 24 100" preserveAspectRatio="none">
          ${values.map((part, hour) => html`<rect x=${hour + 0.1} width="0.8" ...${barOf(part, Math.max(...values))} />`)}
        </svg>
        <p class="hint ends"><span>${valueIn != null && `${addedText(valueIn)} today`}</span><${Time} at=${updatedAt} /></p>
      </li>`
  }
  if (counters.length === 0) return null
  return html`
    <ul class="moving" aria-label="Counters that changed last">${counters.map(tileOf)}</ul>
    <${Freshness} live=${live} />`
}

/** Of a bar, what was added in an hour; the page of the counter has it to be read. */
function barOf(part, most) {
  const height = Math.max(4, (100 * part) / Math.max(most, 1))
  return { y: 100 - height, height }
}

/** Items of each kind that a search shows in a namespace. */
const FOUND = 6

const SEARCH = `query Search($prefix: String!, ${parts.PAGE_VARIABLES}) {
  named: namespaces(prefix: $prefix, first: ${FOUND}) { nodes { id name } }
  namespaces(${parts.PAGE_ARGUMENTS}) {
    nodes {
      name
      counters(prefix: $prefix, first: ${FOUND}) { nodes { id name revision value } pageInfo { hasNextPage } }
      sequences(prefix: $prefix, first: ${FOUND}) { nodes { id name } pageInfo { hasNextPage } }
    }
    ${parts.PAGE_INFO}
  }
}`

const LIVE_SEARCH = `subscription LiveSearch($ids: [ID!]!) {
  nodes(ids: $ids) { ... on Counter { id revision value } }
}`

/** Names are compared exactly, so a search also finds those that begin with the other case. */
function variantsOf(prefix) {
  const [first = ''] = prefix
  const other = first === first.toUpperCase() ? first.toLowerCase() : first.toUpperCase()
  return [...new Set([prefix, other + prefix.slice(first.length)])]
}

/** The items that were found in a namespace, and where the others are. */
function foundIn({ name: namespace, counters, sequences }, prefix) {
  const of = (kind, list, others) => [
    ...(list?.nodes ?? []).map((node) => ({
      ...node,
      kind,
      namespace,
      to: { namespace, [kind]: node.name },
    })),
    ...(list?.pageInfo.hasNextPage
      ? [{ id: kind + namespace, kind: '', namespace, to: { namespace, prefix, ...others } }]
      : []),
  ]
  return [...of('counter', counters), ...of('sequence', sequences, { list: 'sequences' })]
}

export const searchView = {
  id: 'search',
  title: 'Names that start with',
  named: 'prefix',
  summaryOf: ({ nodes }) => `${nodes.length} found.`,
  async read({ prefix, ...page }, signal) {
    const answers = variantsOf(prefix).map(async (prefix) => {
      const answer = await readList(SEARCH, { prefix, ...parts.pageIn(page, NAMESPACES) }, signal)
      const spaces = (answer.named?.nodes ?? []).map((node) => ({
        ...node,
        kind: 'namespace',
        to: { namespace: node.name },
      }))
      const found = (answer.namespaces?.nodes ?? []).flatMap((namespace) => foundIn(namespace, prefix))
      return { ...answer, nodes: (page.after ?? page.before) ? found : [...spaces, ...found] }
    })
    const all = await Promise.all(answers)
    const [{ namespaces, refusal }] = all
    return { nodes: all.flatMap(({ nodes }) => nodes), pageInfo: namespaces?.pageInfo, refusal }
  },
  View({ address, data: { nodes, pageInfo, refusal } }) {
    const { live, nodeOf } = parts.useNodes(
      LIVE_SEARCH,
      nodes.filter(({ kind }) => kind === 'counter'),
    )
    const rowOf = ({ id, name, kind, namespace, to }) => [
      name === undefined
        ? html`<a href=${addressOf(to)}>More…</a>`
        : html`<${NameLink} ...${to} text=${name} />`,
      kind === 'counter' ? html`<${Moving} value=${nodeOf(id).value} />` : kind,
      namespace !== undefined && html`<${NameLink} namespace=${namespace} text=${namespace} />`,
    ]
    const { prefix } = address
    return html`
      <${List} ...${{ address, refusal, rowOf }} connection=${pageInfo && { nodes, pageInfo }} caption="Found"
        columns=${[['Name'], ['Value', 'amount'], ['Namespace']]} />
      <p>
        A namespace needs no creation: <a href=${addressOf({ namespace: prefix })}>open the namespace ${quoted(prefix)}</a>,
        or <a href=${addressOf({ namespace: 'default', counter: prefix })}>the counter ${quoted(prefix)} in default</a>.
      </p>
      ${nodes.length > 0 && html`<${Freshness} live=${live} />`}`
  },
}
