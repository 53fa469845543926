// The definition of a counter, shown in the form that changes it.

import { element } from '../elements.js'
import { trackChanges } from '../forms/changes.js'
import { choiceField, controlIn, numberIn, textField } from '../forms/fields.js'
import { mutationForm } from '../forms/forms.js'
import { periodsField } from '../forms/periodFields.js'

const OVERFLOWS = [
  ['REJECT', 'Reject the addition'],
  ['SATURATE', 'Add up to the bound'],
]

/** `done` is called after each change. */
export function definitionForm({ namespace, name, counter, selection, done, showSent }) {
  const { minValue, maxValue, overflow, slots, timeZone, periods } = counter
  const { periodsElement, read: readPeriods } = periodsField(periods)
  const whole = { inputmode: 'numeric', maxlength: 17 }
  const form = mutationForm({
    class: 'definition',
    fields: [
      element(
        'div',
        { class: 'columns' },
        textField('minValue', 'Lowest value', 'definition.minValue', {
          ...whole,
          value: minValue,
          placeholder: 'none',
        }),
        textField('maxValue', 'Highest value', 'definition.maxValue', {
          ...whole,
          value: maxValue,
          placeholder: 'none',
        }),
        choiceField('overflow', 'At a bound', 'definition.overflow', OVERFLOWS, { value: overflow }),
        textField('slots', 'Slots', 'definition.slots', {
          ...whole,
          value: slots,
          hint: 'Above 1: for counters that several processes change very often. Numbers are not unique, and there are no bounds.',
        }),
        textField('timeZone', 'Time zone', 'definition.timeZone', {
          value: timeZone,
          hint: 'Empty: the namespace’s.',
        }),
      ),
      periodsElement,
    ],
    submit: 'Save',
    operation: () => ['defineCounter', { name, definition: tracked.changes(), namespace }, selection],
    done(defined) {
      for (const id of ['minValue', 'maxValue', 'slots', 'timeZone'])
        controlIn(form, id).value = defined[id] ?? ''
      tracked.restart()
      done()
      return 'Saved.'
    },
    sent: showSent,
  })
  const number = (id) => numberIn(controlIn(form, id))
  const tracked = trackChanges(() => ({
    minValue: number('minValue'),
    maxValue: number('maxValue'),
    overflow: Symbol(controlIn(form, 'overflow').value),
    slots: number('slots'),
    timeZone: controlIn(form, 'timeZone').value.trim() || null,
    periods: readPeriods(),
  }))
  return form
}
