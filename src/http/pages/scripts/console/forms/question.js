// Questions before what can't be undone.

import { button, element } from '../elements.js'
import { mutationForm } from './forms.js'

/**
 * Asks whether to send a mutation, in a dialog that stays open until it succeeded or was cancelled. The browser returns
 * the focus to the button that opened it. The options are those of `mutationForm`.
 */
export function question(title, text, { done, ...options }) {
  const form = mutationForm({
    ...options,
    buttons: [button('Cancel', () => dialog.close())],
    done(data) {
      dialog.close()
      done(data)
    },
  })
  const dialog = element(
    'dialog',
    { 'aria-labelledby': 'question', close: () => dialog.remove() },
    element('h2', { id: 'question' }, title),
    element('p', {}, text),
    form,
  )
  document.body.append(dialog)
  dialog.showModal()
}
