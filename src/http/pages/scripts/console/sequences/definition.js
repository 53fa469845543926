// The definition of a sequence, shown in the form that changes it.

import { go, readAddress } from '../address.js'
import { element } from '../elements.js'
import { trackChanges } from '../forms/changes.js'
import { checkField, choiceField, controlIn, numberIn, textField } from '../forms/fields.js'
import { mutationForm } from '../forms/forms.js'

const RESTARTS = [
  ['', 'Never'],
  ['HOUR', 'Every hour'],
  ['DAY', 'Every day'],
  ['WEEK', 'Every week'],
  ['MONTH', 'Every month'],
  ['YEAR', 'Every year'],
]

export function definitionForm({ namespace, name, sequence, selection, sent }) {
  const { startValue, step, minValue, maxValue, format, timeZone } = sequence
  const whole = (id, label, value, others = {}) =>
    textField(id, label, `definition.${id}`, { inputmode: 'numeric', maxlength: 17, value, ...others })
  const check = (id, label, hint) =>
    checkField(id, label, `definition.${id}`, { hint, checked: sequence[id] })
  const form = mutationForm({
    class: 'definition',
    fields: [
      element(
        'div',
        { class: 'columns' },
        whole('startValue', 'First number', startValue),
        whole('step', 'Step', step, { hint: 'Negative counts down.' }),
        whole('minValue', 'Lowest number', minValue, { placeholder: 'none' }),
        whole('maxValue', 'Highest number', maxValue, { placeholder: 'none' }),
        textField('format', 'Format', 'definition.format', {
          value: format,
          placeholder: 'the number',
          hint: 'Such as INV-{yyyy}-{value:5}; also {group}, {yy}, {MM}, {dd}, {HH}, {week}.',
        }),
        textField('timeZone', 'Time zone', 'definition.timeZone', {
          value: timeZone,
          hint: 'Empty: the namespace’s.',
        }),
        choiceField('restartEvery', 'Restarts', 'definition.restartEvery', RESTARTS, {
          value: sequence.restartEvery ?? '',
        }),
      ),
      check('cycle', 'Wraps around at the end'),
      check('allowRepeats', 'May issue the same text again'),
      check('gapless', 'Gapless: numbers are reserved and confirmed', 'Fixed once numbers were issued.'),
    ],
    submit: 'Save',
    operation: () => ['defineSequence', { name, definition: tracked.changes(), namespace }, selection],
    done(defined) {
      for (const id of ['startValue', 'step', 'minValue', 'maxValue', 'format', 'timeZone'])
        controlIn(form, id).value = defined[id] ?? ''
      tracked.restart()
      // Its numbers are taken in another way, so the view is another one.
      if (defined.gapless !== sequence.gapless) go(readAddress())
      return 'Saved.'
    },
    sent,
  })
  const control = (id) => controlIn(form, id)
  const tracked = trackChanges(() => ({
    startValue: numberIn(control('startValue')),
    step: numberIn(control('step')),
    minValue: numberIn(control('minValue')),
    maxValue: numberIn(control('maxValue')),
    // Spaces may belong to it.
    format: control('format').value || null,
    timeZone: control('timeZone').value.trim() || null,
    restartEvery: control('restartEvery').value === '' ? null : Symbol(control('restartEvery').value),
    cycle: control('cycle').checked,
    allowRepeats: control('allowRepeats').checked,
    gapless: control('gapless').checked,
  }))
  return form
}
