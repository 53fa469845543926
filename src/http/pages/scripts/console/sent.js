// Texts to be copied: the GraphQL that was sent, and secrets.

import { setText } from '../messages.js'
import { button, element } from './elements.js'

/** Shows the GraphQL that a view sent last. Returns the element, and the function that shows a text. */
export function sentPanel() {
  const text = element('code')
  const panel = element(
    'div',
    { class: 'sent', hidden: true },
    element('h3', {}, 'GraphQL that was sent'),
    element('pre', { tabindex: 0, 'aria-label': 'GraphQL that was sent' }, text),
    copyButton(text, 'Copy GraphQL'),
  )
  return {
    panel,
    show(sent) {
      setText(text, sent)
      panel.hidden = false
    },
  }
}

/** A button that copies the text of an element, and says so. */
export function copyButton(source, name) {
  const result = element('span', { role: 'status' })
  async function copy() {
    setText(result, '')
    try {
      await navigator.clipboard.writeText(source.textContent)
      setText(result, 'Copied.')
    } catch {
      // Browsers give pages the clipboard on https and on this machine only.
      getSelection().selectAllChildren(source)
      setText(result, 'Selected: press Ctrl+C to copy.')
    }
  }
  return element('p', { class: 'buttons' }, button(name, copy), result)
}
