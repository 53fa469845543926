// GraphiQL with prepared tabs and the key of the browser's tab. `npm run build` bundles it.
import '@graphiql/react/style.css'
import '@graphiql/plugin-doc-explorer/style.css'
import '@graphiql/plugin-history/style.css'
import 'graphiql/graphiql.css'
import '../frame.css'
import './style.css'
import { formatShortcutForOS, KEY_MAP, pick, useGraphiQL, useGraphiQLActions } from '@graphiql/react'
import { GraphiQL } from 'graphiql'
import { getOperationAST } from 'graphql'
import { createClient } from 'graphql-sse'
import EditorWorker from 'monaco-editor/esm/vs/editor/editor.worker.js?worker'
import JsonWorker from 'monaco-editor/esm/vs/language/json/json.worker.js?worker'
import GraphqlWorker from 'monaco-graphql/esm/graphql.worker.js?worker'
import { createElement, useEffect } from 'react'
import { createRoot } from 'react-dom/client'
import prepared from './tabs.graphql?raw'

const URL = '/graphql'
const KEY = 'nth-key'
const PREFIX = 'graphiql:'
const WORKERS = { json: JsonWorker, graphql: GraphqlWorker }

/** Workers check and complete what somebody types. They are larger than all else, so they wait for the first input. */
const firstInput = new Promise((resolve) => {
  for (const type of ['pointerdown', 'keydown'])
    addEventListener(type, resolve, { once: true, capture: true })
})
globalThis.MonacoEnvironment = {
  getWorker: (_, label) => firstInput.then(() => new (WORKERS[label] ?? EditorWorker)()),
}

const AREAS = [sessionStorage, localStorage]

const namesIn = (area) => Object.keys(area).filter((name) => name.startsWith(PREFIX))

/** Each tab of the browser keeps its own state over a reload. A new one begins with the state of the one used last. */
const storage = {
  getItem: (name) => sessionStorage.getItem(name),
  setItem: (name, value) => AREAS.forEach((area) => void area.setItem(name, value)),
  removeItem: (name) => AREAS.forEach((area) => void area.removeItem(name)),
  clear: () => namesIn(sessionStorage).forEach(storage.removeItem),
}

if (namesIn(sessionStorage).length === 0)
  for (const name of namesIn(localStorage)) sessionStorage.setItem(name, localStorage[name])

/** Sends operations with a key, unless the headers that somebody wrote have another one. Subscriptions run over SSE. */
function createFetcher(key) {
  return async ({ query, variables, operationName }, { headers: written, documentAST } = {}) => {
    const headers = new Headers({ 'content-type': 'application/json', ...written })
    if (key && !headers.has('authorization')) headers.set('authorization', `Bearer ${key}`)
    const request = { query, variables, operationName }
    if (documentAST && getOperationAST(documentAST, operationName)?.operation === 'subscription')
      return subscription(Object.fromEntries(headers), request)
    const response = await fetch(URL, { method: 'POST', headers, body: JSON.stringify(request) })
    if (/json/.test(response.headers.get('content-type'))) return response.json()
    throw new Error(`${response.status} ${response.statusText}`)
  }
}

/** An observable, as GraphiQL wants it. A refusal is shown as the server wrote it. */
const subscription = (headers, request) => ({
  subscribe(sink) {
    // Without attempts to connect again: a refusal is shown at once.
    const client = createClient({ url: URL, headers, retryAttempts: 0 })
    function fail(error) {
      if (!error.response) return sink.error(error)
      error.response
        .json()
        .then(sink.next, () => sink.error(error))
        .then(sink.complete)
    }
    return { unsubscribe: client.subscribe(request, { ...sink, error: fail }) }
  },
})

const VARIABLES = '{ "book": "Bulldozer", "copies": 12 }'
const queries = prepared.trim().split('\n\n')
const defaultTabs = queries.map((query) => ({ query, variables: query.includes('$') ? VARIABLES : null }))

// A link may bring an operation: in a tab of its own, and once, as the tab itself survives a reload.
const link = new URLSearchParams(location.search)
const [initialQuery, initialVariables] = ['query', 'variables'].map((name) => link.get(name) ?? undefined)
if (initialQuery) defaultTabs.unshift({ query: initialQuery, variables: initialVariables })
history.replaceState(null, '', location.pathname)

/** Why nothing can be done without another key; undefined: something can, or it is unknown. */
async function problemOf(fetcher) {
  const { data, errors } = await fetcher({ query: '{ viewer { grants { prefix } } }' }).catch(() => ({}))
  if (data?.viewer.grants.length === 0) return 'This server asks for an API key.'
  if (errors?.[0]?.extensions?.code === 'UNAUTHENTICATED') return 'This key is unknown, expired or revoked.'
}

const shown = pick('tabs', 'activeTabIndex', 'isFetching', 'fetchError', 'responseEditor')

/** What stands in place of an answer. It brings the selected tab into sight, with its variables. */
function Hint({ access }) {
  const { tabs, activeTabIndex, isFetching, fetchError, responseEditor } = useGraphiQL(shown)
  const { updateActiveTabValues } = useGraphiQLActions()
  const { response, variables } = tabs[activeTabIndex]
  useEffect(() => {
    const tab = document.getElementById(`graphiql-session-tab-${activeTabIndex}`)
    tab.scrollIntoView({ block: 'nearest', inline: 'nearest' })
    if (variables) document.querySelector('[data-name=variables]').click()
  }, [activeTabIndex])
  // An error ends with a valid key, or when the schema can be read again.
  useEffect(() => {
    const isOver = access === 'open' && response?.includes('"UNAUTHENTICATED"')
    if (isOver) updateActiveTabValues({ response: null })
    if (isOver || !(response || fetchError)) responseEditor?.setValue('')
  }, [access, activeTabIndex, fetchError])
  if (response || fetchError || isFetching) return
  const keys = formatShortcutForOS(KEY_MAP.runQuery.key, '⌘')
  return access === 'closed' ? 'The answer appears here.' : `Press ▶ or ${keys} to run the operation.`
}

const root = createRoot(document.getElementById('root'))
const field = document.querySelector('.site input')
const fixed = { storage, schemaDescription: true, defaultTabs, initialQuery, initialVariables }

/** @param access `checking`, `closed`, or `open`: only then, GraphiQL reads the schema */
function render(fetcher, access) {
  const footer = createElement(GraphiQL.Footer, null, createElement(Hint, { access }))
  const schema = access === 'open' ? undefined : null
  root.render(createElement(GraphiQL, { ...fixed, fetcher, schema }, footer))
}

/** Asks for a key before anything fails without one. */
async function show() {
  const key = field.value
  const fetcher = createFetcher(key)
  render(fetcher, 'checking')
  const problem = await problemOf(fetcher)
  if (field.value !== key) return
  document.getElementById('problem').textContent = problem
  field.ariaInvalid = Boolean(key && problem)
  if (problem && document.activeElement === document.body) field.focus()
  render(fetcher, problem ? 'closed' : 'open')
}

field.value = sessionStorage.getItem(KEY) ?? ''
field.form.addEventListener('submit', (event) => event.preventDefault())
field.addEventListener('change', () => {
  field.value = field.value.trim()
  sessionStorage.setItem(KEY, field.value)
  show()
})
show()
