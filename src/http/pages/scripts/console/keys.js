// API keys: a page of the list, a form that creates one, and revocation.

import { useState } from 'preact/hooks'
import { Copyable, client, html } from '/page.js'
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
  ADD: 'additions of up to the limit below',
  NUMBER: 'numbers of sequences, up to the limit below; reservations',
  WRITE: 'any change of values, resets, deletion',
  DEFINE: 'definitions',
  ADMIN: 'everything, also API keys',
}

const FIELDS = {
  'grants.0.namespace': ['Namespace', { placeholder: 'every one' }],
  'grants.0.prefix': ['Names that start with', { placeholder: 'any' }],
  'grants.0.names': ['Or exactly these names', { kind: 'lines', hint: 'One on each line.' }],
  origins: ['Origins of pages', { kind: 'lines', hint: 'Such as https://shop.example. Empty: for servers.' }],
  'grants.0.maxDelta': ['Limit of ADD', { kind: 'number', value: '1' }],
  'grants.0.maxCount': ['Limit of NUMBER', { kind: 'number', value: '1' }],
  'grants.0.onceOnly': [
    'Once per subject',
    { kind: 'check', hint: 'Counts only for a subject. Pages need it to read or take back a count.' },
  ],
  documents: ['Only these documents', { kind: 'lines', hint: 'An ID on each line. Empty: any document.' }],
  perMinute: ['Changes a minute', { kind: 'number', hint: 'Empty: the server’s default.' }],
  expiresAt: ['Valid until', { type: 'datetime-local', hint: 'In your time zone. Empty: until revoked.' }],
}

function CreateForm({ done }) {
  const [secret, setSecret] = useState()
  function argsOf({ label, origins, documents, perMinute, expiresAt, namespace, ...others }) {
    const { names, prefix, maxDelta, maxCount, onceOnly, ...checks } = others
    const scopes = Object.keys(SCOPES).filter((scope) => checks[scope])
    const limits = { namespace: namespace || null, names, prefix, maxDelta, maxCount, onceOnly }
    // The field has the local time, as has Date without a zone.
    const end = expiresAt === '' ? null : new Date(expiresAt).toISOString()
    const limited = { origins, documents, perMinute, expiresAt: end }
    return { label, grants: [{ scopes: scopes.map(Symbol), ...limits }], ...limited }
  }
  function created({ secret, key }) {
    setSecret(secret)
    done()
    return `Created: ${key.prefix}…`
  }
  const scopeOf = ([scope, meaning]) => html`
    <label><input type="checkbox" name=${scope} /> <strong>${scope}</strong> ${meaning}</label>`
  const fieldOf = ([argument, [label, more]]) =>
    html`<${Field} id=${argument.split('.').pop()} ...${{ argument, label, ...more }} />`
  return html`
    <${Section} title="Create a key">
      <${MutationForm} submit="Create the key" mutation="createApiKey" argsOf=${argsOf} selection="secret key { prefix }" done=${created} initial=${secret}>
        <${Field} id="label" label="Label" hint="What it is for." maxlength="191" />
        <${Field} id="scopes" label="Scopes" argument="grants.0.scopes">
          <div class="tiles columns">${Object.entries(SCOPES).map(scopeOf)}</div>
        <//>
        <div class="tiles columns">${Object.entries(FIELDS).map(fieldOf)}</div>
      <//>
      ${secret !== undefined && html`<${Copyable} text=${secret} label="Copy the key now: it is not shown again." button="Copy the key" />`}
    <//>`
}
