// API keys: a page of the list, a form that creates one, and revocation.

import { setText } from '../../messages.js'
import { button, element, nameOf, section } from '../elements.js'
import { grantText, quoted, timeText } from '../formats.js'
import { question } from '../forms/question.js'
import { fromEnd, PAGE_ARGUMENTS, PAGE_INFO, PAGE_VARIABLES, pageFromEnd, pager } from '../paging.js'
import { ask } from '../request.js'
import { createForm } from './newApiKey.js'

const KEY = `id label prefix origins perMinute createdAt expiresAt revokedAt lastUsedAt
  grants { scopes namespace names prefix maxDelta maxCount }`

export async function keysView(address, signal) {
  const list = element('div')
  async function showList() {
    const { apiKeys } = await ask(
      `query ApiKeys(${PAGE_VARIABLES}) { apiKeys(${PAGE_ARGUMENTS}) { nodes { ${KEY} } ${PAGE_INFO} } }`,
      pageFromEnd(address),
    )
    if (signal.aborted) return
    const none = element('p', { class: 'none' }, 'There are no API keys.')
    // The newest first.
    const { nodes, pageInfo } = fromEnd(apiKeys)
    const items = nodes.map(itemOf)
    list.replaceChildren(
      items.length === 0 ? none : element('ul', { 'aria-label': 'API keys' }, items),
      pager(address, pageInfo),
    )
  }
  await showList()
  // Those that exist are unchanged, so it doesn't matter much if the list can't be read again.
  const create = createForm(() => showList().catch(() => {}))
  return { title: 'API keys', names: ['API keys'], content: [section('Create a key', create), list] }
}

function itemOf(key) {
  const state = element('p', { class: 'count' })
  const revoke = button('Revoke…', askRevoke, { 'aria-label': `Revoke ${key.label}` })
  const result = element('p', { class: 'result', role: 'status' })
  const heading = element('h3', { tabindex: -1 }, nameOf(key.label))

  function askRevoke() {
    question(`Revoke ${quoted(key.label)}?`, 'It stops working within two seconds, and can’t be restored.', {
      submit: 'Revoke',
      operation: () => ['revokeApiKey', { id: key.id }, 'revokedAt'],
      done(revoked) {
        show({ ...key, ...revoked })
        setText(result, 'Revoked.')
        // Its button is gone.
        heading.focus()
      },
    })
  }

  function show({ revokedAt, expiresAt }) {
    revoke.hidden = revokedAt !== null
    setText(state, revokedAt === null ? expiryText(expiresAt) : `Revoked ${timeText(revokedAt)}.`)
  }

  show(key)
  const facts = [
    ['Key', `${key.prefix}…`],
    ['Allows', key.grants.map((grant) => grantText(grant)).join('; ')],
    ['Pages', key.origins === null ? 'none: for servers' : key.origins.join(', ')],
    ['Changes a minute', key.perMinute === null ? 'the server’s default' : key.perMinute],
    ['Created', timeText(key.createdAt)],
    ['Last used', timeText(key.lastUsedAt)],
  ]
  const list = facts.map(([name, fact]) =>
    element('div', {}, element('dt', {}, name), element('dd', {}, fact)),
  )
  return element(
    'li',
    {},
    element('div', { class: 'text' }, heading, state, element('dl', {}, list)),
    revoke,
    result,
  )
}

function expiryText(expiresAt) {
  if (expiresAt === null) return 'Valid until it is revoked.'
  const isOver = new Date(expiresAt) <= new Date()
  return `${isOver ? 'Expired' : 'Valid until'} ${timeText(expiresAt)}.`
}
