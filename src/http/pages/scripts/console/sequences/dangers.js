// Restarting and deleting a sequence, each after a question.

import { setText } from '../../messages.js'
import { go, readAddress } from '../address.js'
import { button, element } from '../elements.js'
import { quoted } from '../formats.js'
import { numberIn, textField } from '../forms/fields.js'
import { question } from '../forms/question.js'
import { GROUP } from './groups.js'
import { groupField, groupIn } from './tries.js'

export function dangers({ namespace, name, group, sent, showIssued }) {
  const result = element('p', { class: 'result', role: 'status' })
  function askRestart() {
    setText(result, '')
    const fields = [
      groupField('restart-group', group),
      textField('nextValue', 'Next number', 'nextValue', {
        inputmode: 'numeric',
        maxlength: 17,
        hint: 'Empty: the first number of the definition.',
      }),
    ]
    const [groupInput, nextInput] = fields.map((field) => field.querySelector('input'))
    question(`Restart ${quoted(name)}?`, 'Numbers that were issued before may be issued again.', {
      fields,
      submit: 'Restart',
      operation: () => {
        const nextValue = numberIn(nextInput) ?? undefined
        return ['restartSequence', { name, group: groupIn(groupInput), nextValue, namespace }, GROUP]
      },
      done(state) {
        showIssued(state)
        setText(result, `The next number is ${quoted(state.nextFormatted)}.`)
      },
      sent,
    })
  }
  function askDelete() {
    const text =
      'Its definition, all its groups and reservations are deleted, and can’t be restored. Its numbers restart.'
    question(`Delete ${quoted(name)}?`, text, {
      submit: 'Delete',
      operation: () => ['deleteSequence', { name, namespace }, 'name'],
      // Unless the person has gone elsewhere meanwhile.
      done: () => readAddress().sequence === name && go({ namespace, list: 'sequences' }),
      sent,
    })
  }
  const buttons = [button('Restart…', askRestart), button('Delete…', askDelete, { class: 'quiet danger' })]
  return [element('p', { class: 'buttons' }, buttons), result]
}
