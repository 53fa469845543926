// Forms that add to a counter.

import { element } from '../elements.js'
import { numberText } from '../formats.js'
import { controlIn, numberIn, textField } from '../forms/fields.js'
import { mutationForm } from '../forms/forms.js'

const CHANGE = 'value previousValue appliedDelta'

export function tryForms(namespace, name, sent) {
  const by = mutationForm({
    class: 'line',
    fields: [textField('delta', 'Add', 'delta', { value: '10', inputmode: 'numeric', maxlength: 17 })],
    submit: 'Add',
    operation: () => {
      const delta = numberIn(controlIn(by, 'delta'))
      return ['incrementBy', { name, delta, namespace }, CHANGE]
    },
    done: changeText,
    sent,
  })
  const one = mutationForm({
    submit: 'Increment',
    operation: () => ['increment', { name, namespace }, CHANGE],
    done: changeText,
    sent,
  })
  return element('div', { class: 'tries' }, one, by)
}

function changeText({ value, previousValue, appliedDelta }) {
  return `${numberText(value)}: ${numberText(appliedDelta)} added to ${numberText(previousValue)}.`
}
