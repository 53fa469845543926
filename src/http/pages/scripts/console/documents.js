// Trusted documents: a page of the list, a form that adds those of a manifest, and removal.

import { html } from '/page.js'
import { Field, MutationForm, Question } from './forms.js'
import * as parts from './parts.js'

const DOCUMENTS = `query TrustedDocuments(${parts.PAGE_VARIABLES}) {
  trustedDocuments(${parts.PAGE_ARGUMENTS}) { nodes { id: documentId text addedAt } ${parts.PAGE_INFO} }
}`

const HINT =
  'JSON of GraphQL Code Generator, Relay or Apollo: an ID and a text for each document. Up to 500 at a time; more with nth documents add.'

export const documentsView = {
  title: 'Trusted documents',
  read: (address, signal) =>
    parts.readList(DOCUMENTS, parts.pageIn(address), signal, ({ trustedDocuments }) => trustedDocuments),
  View({ address, data, readAgain }) {
    const rowOf = ({ id, text, addedAt }) => [
      html`<code>${id}</code>`,
      html`<details><summary>${text.replace(/\s+/g, ' ').trim().slice(0, 60)}</summary><pre>${text}</pre></details>`,
      html`<${parts.Time} at=${addedAt} />`,
      html`
        <${Question} submit="Remove" name=${id} label="Remove ${id}" mutation="removeTrustedDocument"
          argsOf=${() => ({ documentId: id })} selection="documentId" text="Within two seconds, every server refuses it; open subscriptions go on."
          done=${readAgain} />`,
    ]
    function done(added) {
      readAgain()
      return `Added: ${added.length}.`
    }
    return html`
      <${parts.Section} title="Add a manifest">
        <${MutationForm} submit="Add the documents" mutation="addTrustedDocuments" argsOf=${argsOf} selection="documentId" done=${done}>
          <${Field} id="documents" label="Manifest" kind="lines" hint=${HINT} />
        <//>
      <//>
      <${parts.List} ...${{ address, rowOf, ...data }} caption="Trusted documents" empty="No documents were added."
        columns=${[['ID'], ['Text', 'wide'], ['Added', 'wide'], ['Remove']]} />`
  },
}

/** The documents of a manifest; none if it is no manifest, which the API refuses. */
function argsOf({ documents }) {
  try {
    const manifest = JSON.parse(documents.join('\n'))
    const entries = manifest.operations?.map(({ id, body }) => [id, body]) ?? Object.entries(manifest)
    return { documents: entries.map(([documentId, text]) => ({ documentId, text: String(text) })) }
  } catch {
    return { documents: [] }
  }
}
