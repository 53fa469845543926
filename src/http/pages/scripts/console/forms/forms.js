// Forms that send one mutation each.

import { isInDoubt } from '../../api.js'
import { setText, withProgress } from '../../messages.js'
import { element } from '../elements.js'
import { change } from '../request.js'
import { clearProblems, showProblem } from './fields.js'
import { mutation } from './graphql.js'

/** Mutations that take an idempotency key. */
const KEYED = ['increment', 'incrementBy', 'reset', 'nextInSequence', 'restartSequence', 'reserveInSequence']

/**
 * A form that sends what `operation` returns: a field, its arguments and selection. `done` gets the field's data and
 * returns what to report of it. `sent` shows the text of the operation. It does one at a time.
 */
export function mutationForm({
  fields = [],
  submit,
  isQuiet,
  buttons = [],
  operation,
  done,
  sent,
  ...attributes
}) {
  const result = element('p', { class: 'result', role: 'status' })
  const problem = element('p', { class: 'problem', role: 'alert' })
  let isBusy = false

  async function send(event) {
    event.preventDefault()
    if (isBusy) return
    isBusy = true
    clearProblems(form)
    setText(result, '')
    try {
      const [field, args, selection] = operation()
      const text = mutation(field, args, selection)
      sent?.(text)
      const data = await withProgress(result, 'Waiting for the answer…', () =>
        change(text, KEYED.includes(field)),
      )
      setText(result, done(data[field]) ?? '')
    } catch (error) {
      if (isInDoubt(error))
        setText(problem, `The connection broke: this may or may not be done. ${error.message}`)
      else showProblem(form, error, problem)
    }
    isBusy = false
  }

  const form = element(
    'form',
    { novalidate: true, submit: send, ...attributes },
    fields,
    element(
      'p',
      { class: 'buttons' },
      element('button', { type: 'submit', class: isQuiet ? 'quiet' : null }, submit),
      buttons,
    ),
    result,
    problem,
  )
  return form
}
