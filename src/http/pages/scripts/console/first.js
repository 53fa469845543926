// What an empty console begins with: the first counter, and how to use it.

import { useState } from 'preact/hooks'
import { html } from '/page.js'
import { UseIt } from '/useIt.js'
import { Field, MutationForm } from './forms.js'
import { addressOf, go } from './parts.js'

const NAMESPACE = 'default'

export function First() {
  const [name, setName] = useState('visitors')
  const created = () => go({ namespace: NAMESPACE, counter: name })
  return html`
    <div class="halves tiles">
      <section class="card panel" aria-label="Your first counter">
        <h3>Your first counter</h3>
        <p>A counter needs no setup: it is created when it first counts. Everybody who counts gets a number of their own.</p>
        <${MutationForm} mutation="increment" selection="value" submit="Create it and count 1" done=${created}>
          <${Field} id="name" label="Name" value=${name} maxlength="191" onInput=${({ target }) => setName(target.value)} />
        <//>
        <p class="hint">To number tickets or invoices, use <a href=${addressOf({ namespace: NAMESPACE, list: 'sequences' })}>a sequence</a>.</p>
      </section>
      <${UseIt} heading=${html`<h3>Use it</h3>`} ...${{ namespace: NAMESPACE, name }} />
    </div>`
}
