// API keys: a page of the list, a form that creates one, and revocation.

import { useState } from 'preact/hooks'
import { Copyable, client, html } from '/page.js'
import { WAYS } from '/useIt.js'
import { Field, MutationForm, Question } from './forms.js'
import * as parts from './parts.js'

const { List, Name, Section, Time, timeText } = parts

const KEYS = `query ApiKeys(${parts.PAGE_VARIABLES}) {
  apiKeys(${parts.PAGE_ARGUMENTS}) {
    nodes {
      id label prefix origins perMinute documents createdAt expiresAt revokedAt lastUsedAt
      grants { scopes namespace names prefix maxDelta maxCount onceOnly }
    }
    ${parts.PAGE_INFO}
  }
}`

/** The newest first: what is after something is before it in the API's order. */
async function readKeys({ after, before }, signal) {
  const variables = before === undefined ? { last: 50, before: after } : { first: 50, after: before }
  const { apiKeys } = await client.query(KEYS, variables, { signal })
  const { hasNextPage, hasPreviousPage, startCursor, endCursor } = apiKeys.pageInfo
  const cursors = { startCursor: endCursor, endCursor: startCursor }
  const pageInfo = { hasNextPage: hasPreviousPage, hasPreviousPage: hasNextPage, ...cursors }
  return { connection: { nodes: apiKeys.nodes.toReversed(), pageInfo } }
}

const COLUMNS = [['Key'], ['May'], ['Used by', 'wide'], ['Created', 'wide'], ['Last used', 'wide'], ['Valid']]

export const keysView = {
  title: 'API keys',
  read: readKeys,
  View({ address, data, readAgain }) {
    const rowOf = (key) => {
      const { id, label, prefix, origins, perMinute, documents } = key
      function revoked() {
        readAgain()
        // Its button is going.
        document.getElementById(id).focus()
      }
      const revocation = html`
        <${Question} submit="Revoke" name=${label} label="Revoke ${label}" mutation="revokeApiKey" argsOf=${() => ({ id })}
          selection="revokedAt" text="It stops working within two seconds, and can’t be restored." done=${revoked} />`
      return [
        html`<${Name} text=${label} /><br /><code>${prefix}…</code>`,
        [parts.rightsText(key.grants), documents && `; trusted documents only: ${documents.length}`],
        [origins?.join(', ') ?? 'servers', perMinute !== null && `: ${perMinute} changes a minute`],
        html`<${Time} at=${key.createdAt} />`,
        html`<${Time} at=${key.lastUsedAt} />`,
        html`<p tabindex="-1" id=${id} role="status">${validityText(key)}</p>${key.revokedAt === null && revocation}`,
      ]
    }
    return html`
      <${CreateForm} done=${readAgain} />
      <${List} ...${{ address, rowOf, ...data }} caption="API keys" columns=${COLUMNS} empty="There are no API keys." />`
  },
}

function validityText({ expiresAt, revokedAt }) {
  if (revokedAt !== null) return `Revoked ${timeText(revokedAt)}.`
  if (expiresAt === null) return 'Until it is revoked.'
  return `${new Date(expiresAt) <= new Date() ? 'Expired' : 'Until'} ${timeText(expiresAt)}.`
}

const SCOPES = {
  READ: 'queries and live values',
  ADD: 'additions, up to a limit',
  NUMBER: 'numbers of sequences, up to a limit; reservations',
  HOLD: 'holds, which count when they are confirmed',
  WRITE: 'any change of values, resets, deletion',
  DEFINE: 'definitions',
  ADMIN: 'everything, also API keys',
}

const FIELDS = {
  origins: [
    'Origins of your pages',
    { kind: 'lines', hint: 'Such as https://shop.example, one on each line.' },
  ],
  namespace: ['Namespace', { placeholder: 'every namespace' }],
  names: ['Exactly these names', { kind: 'lines', hint: 'One on each line. Empty: every name.' }],
  prefix: ['Or names that start with', { placeholder: 'any' }],
  maxDelta: ['Limit of ADD', { kind: 'number', value: '1' }],
  maxCount: ['Limit of NUMBER', { kind: 'number', value: '1' }],
  onceOnly: [
    'Once per subject',
    { kind: 'check', hint: 'Counts only for a subject. Pages need it to read or take back a count.' },
  ],
  documents: ['Only these documents', { kind: 'lines', hint: 'An ID on each line. Empty: any document.' }],
  perMinute: ['Changes a minute', { kind: 'number', hint: 'Empty: the server’s default.' }],
  expiresAt: ['Valid until', { type: 'datetime-local', hint: 'In your time zone. Empty: until revoked.' }],
}

const OF_A_KEY = ['origins', 'documents', 'perMinute', 'expiresAt']

/** What a key may be for: what to know about it, the scopes to choose from, and the fields that it begins with. */
const PURPOSES = {
  'For a page': [
    'Everybody can read it there, so it works on your pages only.',
    ['READ', 'ADD', 'NUMBER', 'HOLD'],
    ['origins', 'namespace', 'names'],
  ],
  'For a server': ['Your programs keep it secret. No page can use it.', Object.keys(SCOPES), ['namespace']],
}

function CreateForm({ done }) {
  const [purpose, setPurpose] = useState()
  const [created, setCreated] = useState()
  const isPage = purpose === 'For a page'
  function argsOf({ label, origins, documents, perMinute, expiresAt, namespace, ...others }) {
    const { names, prefix, maxDelta, maxCount, onceOnly, ...checks } = others
    const scopes = Object.keys(SCOPES).filter((scope) => checks[scope])
    const limits = { namespace: namespace || null, names, prefix, maxDelta, maxCount, onceOnly }
    // The field has the local time, as has Date without a zone.
    const end = expiresAt === '' ? null : new Date(expiresAt).toISOString()
    const limited = { origins: isPage ? (origins ?? []) : null, documents, perMinute, expiresAt: end }
    return { label, grants: [{ scopes: scopes.map(Symbol), ...limits }], ...limited }
  }
  function show({ secret, key }, { elements }) {
    const [name] = elements.names.value.trim().split('\n')
    const counter = {
      namespace: elements.namespace.value || 'default',
      name: name || `${elements.prefix.value}visitors`,
    }
    const mayCount = ['ADD', 'WRITE', 'ADMIN'].some((scope) => elements[scope]?.checked)
    const text = WAYS[isPage ? '<nth-count>' : 'curl']({ ...counter, hasKey: true })
    setCreated({ secret, lines: mayCount && text.replace(/nth_…|\$NTH_KEY/, secret) })
    done()
    return `Created: ${key.prefix}…`
  }
  const choiceOf = ([name, [about]]) => html`
    <div>
      <button type="button" class=${name === purpose ? '' : 'quiet'} aria-pressed=${name === purpose} onClick=${() => setPurpose(name)}>${name}</button>
      <p class="hint">${about}</p>
    </div>`
  const argumentOf = (id) => (OF_A_KEY.includes(id) ? id : `grants.0.${id}`)
  const fieldOf = (id) =>
    html`<${Field} ...${{ id, label: FIELDS[id][0], ...FIELDS[id][1] }} argument=${argumentOf(id)} />`
  const formOf = ([, scopes, fields]) => {
    const others = Object.keys(FIELDS).filter((id) => id !== 'origins' && !fields.includes(id))
    const scopeOf = (scope) => html`
      <label><input type="checkbox" name=${scope} defaultChecked=${/READ|ADD/.test(scope)} /> <strong>${scope}</strong> ${SCOPES[scope]}</label>`
    return html`
      <${MutationForm} key=${purpose} submit="Create the key" mutation="createApiKey" argsOf=${argsOf} selection="secret key { prefix }" done=${show} initial=${created}>
        <${Field} id="label" label="Label" hint="What it is for." maxlength="191" />
        <div class="tiles">${fields.map(fieldOf)}</div>
        <${Field} id="scopes" label="It may" argument="grants.0.scopes">
          <div class="tiles">${scopes.map(scopeOf)}</div>
        <//>
        <details><summary>More limits</summary><div class="tiles">${others.map(fieldOf)}</div></details>
      <//>`
  }
  return html`
    <${Section} title="Create a key">
      <div class="tiles">${Object.entries(PURPOSES).map(choiceOf)}</div>
      ${purpose && formOf(PURPOSES[purpose])}
      ${created && html`<${Copyable} text=${created.secret} label="Copy the key now: it is not shown again." button="Copy the key" />`}
      ${created?.lines && html`<${Copyable} text=${created.lines} label="To paste" button="Copy the lines" />`}
    <//>`
}
