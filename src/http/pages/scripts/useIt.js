// How to use one counter, as text to copy: requests, a component for React, an element for pages, and a badge.

import { useState } from 'preact/hooks'
import { Copyable, html, useAccess } from './page.js'

const { origin } = location

/** A name in each language. It may have all characters but control characters. */
const inScript = (name) => `'${name.replace(/['\\]/g, '\\$&').replace(/<(?=[/!])/g, '\\x3C')}'`
const inHtml = (name) => name.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
const inMarkdown = (name) => name.replace(/[\\`*_~<&[\]]/g, '\\$&')
const inPath = (name) =>
  encodeURIComponent(name).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)

/** The ways, each with its text and what comes of it. With `hasKey` they send a key, which is left to fill in. */
export const WAYS = {
  GraphQL: ({ namespace, name }) => `mutation {
  increment(namespace: ${JSON.stringify(namespace)}, name: ${JSON.stringify(name)}) {
    value
    valueIn(period: MONTH)
  }
}`,
  curl({ namespace, name, hasKey }) {
    const body = `{
  "query": "mutation ($namespace: String!, $name: String!) { increment(namespace: $namespace, name: $name) { value valueIn(period: MONTH) } }",
  "variables": { "namespace": ${JSON.stringify(namespace)}, "name": ${JSON.stringify(name)} }
}`
    return `curl ${origin}/graphql \\${hasKey ? `\n  -H "Authorization: Bearer $NTH_KEY" \\` : ''}
  --json '${body.replaceAll("'", "'\\''")}'`
  },
  fetch: ({ namespace, name, hasKey }) => `const { newKey } = await import('${origin}/client.js')
const query = \`mutation ($namespace: String!, $name: String!) {
  increment(namespace: $namespace, name: $name) { value }
}\`
const variables = { namespace: ${inScript(namespace)}, name: ${inScript(name)} }
const response = await fetch('${origin}/graphql', { method: 'POST',
  headers: { 'content-type': 'application/json',
    'idempotency-key': newKey(),${hasKey ? "\n    authorization: 'Bearer nth_…'," : ''}
  },
  body: JSON.stringify({ query, variables }),
})
const { data } = await response.json()
console.log(data.increment.value)`,
  React: ({ namespace, name, hasKey }) => `// npm install ${origin}/client.tgz
import { createClient } from 'nth-counters/client'
import { useCount } from 'nth-counters/react'

const client = createClient({ url: '${origin}/graphql'${hasKey ? ", key: 'nth_…'" : ''} })

export function Count() {
  const { mine, error, increment } = useCount({
    namespace: ${inScript(namespace)}, name: ${inScript(name)}, client,
  })
  const text = mine ? \`No. \${mine}\` : 'Count me'
  return <button onClick={increment}>{error?.message ?? text}</button>
}`,
  '<nth-count>': ({ namespace, name, hasKey }) => `<script async crossorigin src="${origin}/nth.js"></script>

You are number <nth-count src="${origin}"
  namespace="${inHtml(namespace)}" name="${inHtml(name)}"${hasKey ? ' key="nth_…"' : ''}
  action="increment" own>…</nth-count>`,
  Badge: ({ namespace, name, hasKey }) =>
    `![${inMarkdown(name)}](${origin}/badge/counter/${inPath(namespace)}/${inPath(name)}.svg${hasKey ? '?key=nth_…' : ''})`,
}

const RESULTS = {
  '<nth-count>': html`Counts when a page is opened. It can also <a href="/docs/embed#the-element">count clicks, or each reader once</a>.`,
  Badge: html`Markdown. It shows the value, and <a href="/docs/embed#badges">never counts</a>.`,
}

/** `answer` is what a request was answered. */
export function UseIt({ heading, answer, ...counter }) {
  const { key: hasKey } = useAccess()
  const [way, setWay] = useState('GraphQL')
  const radioOf = (name) =>
    html`<label><input type="radio" name="way" checked=${name === way} onChange=${() => setWay(name)} />${name}</label>`
  const { value, valueIn } = answer ?? {}
  const fields = /GraphQL|curl/.test(way) ? `"value": ${value}, "valueIn": ${valueIn}` : `"value": ${value}`
  const result = RESULTS[way] ?? html`→ ${answer ? html`<code>{ ${fields} }</code>` : 'your own number'}`
  return html`
    <section class="request card panel" aria-label="Use it">
      ${heading}
      <${Copyable} text=${WAYS[way]({ ...counter, hasKey })} label="What to copy">
        <fieldset class="line segments" aria-label="Use it with">${Object.keys(WAYS).map(radioOf)}</fieldset>
      <//>
      <p class="answer muted">${result} ${hasKey && html`Give it <a href="/docs/security#keys">a key of its own</a>.`}</p>
    </section>`
}
