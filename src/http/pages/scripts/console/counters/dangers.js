// Resetting and deleting a counter, each after a question.

import { setText } from '../../messages.js'
import { go, readAddress } from '../address.js'
import { button, element } from '../elements.js'
import { numberText, quoted } from '../formats.js'
import { numberIn, textField } from '../forms/fields.js'
import { question } from '../forms/question.js'

export function dangers(namespace, name, sent) {
  const result = element('p', { class: 'result', role: 'status' })
  function askReset() {
    setText(result, '')
    const fields = [textField('to', 'New value', 'to', { value: '0', inputmode: 'numeric', maxlength: 17 })]
    const valueTo = () => numberIn(fields[0].querySelector('input'))
    question(`Reset ${quoted(name)}?`, 'Its value is set. Its history and its definition stay as they are.', {
      fields,
      submit: 'Reset',
      operation: () => ['reset', { name, to: valueTo(), namespace }, 'value previousValue'],
      done: (change) =>
        setText(result, `Set to ${numberText(change.value)}; it was ${numberText(change.previousValue)}.`),
      sent,
    })
  }
  function askDelete() {
    question(
      `Delete ${quoted(name)}?`,
      'Its value, its definition and its history are deleted, and can’t be restored.',
      {
        submit: 'Delete',
        operation: () => ['deleteCounter', { name, namespace }, 'value'],
        // Unless the person has gone elsewhere meanwhile.
        done: () => readAddress().counter === name && go({ namespace }),
        sent,
      },
    )
  }
  const buttons = [button('Reset…', askReset), button('Delete…', askDelete, { class: 'quiet danger' })]
  return [element('p', { class: 'buttons' }, buttons), result]
}
