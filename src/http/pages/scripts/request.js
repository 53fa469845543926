// The request that bought a copy, as text to copy in four ways.

import { useState } from 'preact/hooks'
import { Copyable, html, useAccess } from './page.js'

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
  "query": "mutation ($shop: String!, $book: String!) { increment(namespace: $shop, name: $book) { value valueIn(period: MONTH) } }",
  "variables": { "shop": "booksales", "book": "${title}" }
}'`,
  fetch: (title, key) => `const { newKey } = await import('${location.origin}/client.js')
const query = \`mutation ($book: String!) {
  increment(namespace: "booksales", name: $book) { value }
}\`
const response = await fetch('${url}', { method: 'POST',
  headers: { 'content-type': 'application/json',
    'idempotency-key': newKey(),${key ? "\n    authorization: 'Bearer ' + key," : ''}
  },
  body: JSON.stringify({ query, variables: { book: '${title}' } }),
})
const { data } = await response.json()
console.log(data.increment.value)`,
  React: (title, key) => `import { createClient } from 'nth-counters/client'
import { useCount } from 'nth-counters/react'

const client = createClient({ url: '${url}'${key ? ", key: 'nth_…'" : ''} })

export function Buy({ name = '${title}' }) {
  const { mine, error, increment } = useCount({
    name, namespace: 'booksales', client,
  })
  const text = mine ? \`No. \${mine}\` : 'Buy'
  return <button onClick={increment}>{error?.message ?? text}</button>
}`,
}

export function Request({ title, copy }) {
  const { key } = useAccess()
  const [way, setWay] = useState('GraphQL')
  const radioOf = (name) =>
    html`<label><input type="radio" name="way" checked=${name === way} onChange=${() => setWay(name)} />${name}</label>`
  return html`
    <section class="request card" aria-label="The request">
      <${Copyable} text=${ways[way](title, key)} label="The request">
        <fieldset class="line segments" aria-label="The request as">${Object.keys(ways).map(radioOf)}</fieldset>
      <//>
      <p class="answer muted">→ ${copy ? html`<code>{ "value": ${copy.value}${/GraphQL|curl/.test(way) && `, "valueIn": ${copy.valueIn}`} }</code>` : 'your own number'}</p>
    </section>`
}
