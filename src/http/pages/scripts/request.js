// The request that bought a copy, as text to copy in four ways.

import { useRef, useState } from 'preact/hooks'
import { html, useAccess } from './page.js'

const url = `${location.origin}/graphql`

/** How to send it, by the name of the tab. `key` adds what a protected server needs. */
const ways = {
  GraphQL: (title) => `mutation {
  increment(namespace: "booksales", name: "${title}") {
    value
    valueIn(period: MONTH)
  }
}`,
  curl: (title, key) =>
    `curl ${url} \\${key ? `\n  -H "Authorization: Bearer $NTH_KEY" \\` : ''}
  --json '{
  "query": "mutation ($shop: String!, $book: String!) {
    increment(namespace: $shop, name: $book) { value valueIn(period: MONTH) } }",
  "variables": { "shop": "booksales", "book": "${title}" }
}'`.replace(/\{\n {4}increment/, '{ increment'),
  fetch: (title, key) => `const query = \`mutation ($book: String!) {
  increment(namespace: "booksales", name: $book) { value }
}\`
const response = await fetch('${url}', {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    'idempotency-key': crypto.randomUUID(),${key ? '\n    authorization: `Bearer ${key}`,' : ''}
  },
  body: JSON.stringify({ query, variables: { book: '${title}' } }),
})
const { data } = await response.json()
console.log(data.increment.value)`,
  React: (title, key) => `import { useState } from 'react'
import { createClient } from 'nth-counters/client'

const nth = createClient({ url: '${url}'${key ? ', key' : ''} })
const BUY = \`mutation ($book: String!) {
  increment(namespace: "booksales", name: $book) { value }
}\`

export function Buy({ book = '${title}' }) {
  const [copy, setCopy] = useState()
  const buy = async () => setCopy((await nth.mutate(BUY, { book })).increment)
  return <button onClick={buy}>{copy ? \`No. \${copy.value}\` : 'Buy'}</button>
}`,
}

const names = Object.keys(ways)

export function Request({ title, copy }) {
  const { key } = useAccess()
  const [way, setWay] = useState('GraphQL')
  const [isCopied, setCopied] = useState(false)
  const code = useRef()
  const text = ways[way](title, key)

  function choose(name) {
    setWay(name)
    setCopied(false)
  }

  function move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (!step) return
    choose(names.at((names.indexOf(way) + step) % names.length))
    event.currentTarget
      .querySelectorAll('button')
      .item(names.indexOf(way) + step)
      ?.focus()
  }

  async function copyText() {
    getSelection().selectAllChildren(code.current)
    // Without HTTPS there is no clipboard; the text is selected then.
    await navigator.clipboard?.writeText(text)
    setCopied(Boolean(navigator.clipboard))
  }

  return html`
    <section class="request card" aria-label="The request">
      <div class="bar">
        <div role="tablist" aria-label="The request as" onKeyDown=${move}>
          ${names.map(
            (name) => html`
              <button role="tab" id=${`tab-${name}`} aria-controls="code" aria-selected=${name === way} tabindex=${name === way ? 0 : -1} onClick=${() => choose(name)}>${name}</button>`,
          )}
        </div>
        <button class="link" onClick=${copyText}>${isCopied ? 'Copied' : 'Copy'}</button>
      </div>
      <pre id="code" role="tabpanel" aria-labelledby=${`tab-${way}`} tabindex="0"><code ref=${code}>${text}</code></pre>
      <p class="answer">${copy ? html`Your answer: <code>{ "value": ${copy.value}${way === 'GraphQL' || way === 'curl' ? `, "valueIn": ${copy.valueIn}` : ''} }</code>` : 'The answer is your own number.'}</p>
    </section>`
}
