// Forms that take numbers of a sequence.

import { quoted } from '../formats.js'
import { controlIn, numberIn, textField } from '../forms/fields.js'
import { mutationForm } from '../forms/forms.js'
import { GROUP } from './groups.js'

/** The field for a group; empty is the one without a name. */
export function groupField(id, value) {
  return textField(id, 'Group', 'group', { value, hint: 'Empty: the group without a name.' })
}

/** The name of a group in its field; undefined is the default. */
export function groupIn(control) {
  return control.value === '' ? undefined : control.value
}

/** A form that issues numbers. */
export function nextForm({ namespace, name, group, sent, showIssued }) {
  const form = mutationForm({
    class: 'line',
    fields: [
      groupField('group', group),
      textField('count', 'How many', 'count', { value: '1', inputmode: 'numeric', maxlength: 17 }),
    ],
    submit: 'Issue',
    operation: () => {
      const args = {
        name,
        group: groupIn(controlIn(form, 'group')),
        count: numberIn(controlIn(form, 'count')),
      }
      return ['nextInSequence', { ...args, namespace }, `value formatted count lastValue group { ${GROUP} }`]
    },
    done(issued) {
      showIssued(issued.group)
      return issuedText(issued)
    },
    sent,
  })
  return form
}

function issuedText({ formatted, count, value, lastValue }) {
  if (count === 1) return `Issued: ${quoted(formatted)}.`
  return `Issued: ${count} numbers from ${value} to ${lastValue}; the first is ${quoted(formatted)}.`
}

/** A form that reserves a number of a gapless sequence. */
export function reserveForm({ namespace, name, group, sent, showIssued, reservations }) {
  const form = mutationForm({
    class: 'line',
    fields: [
      groupField('group', group),
      textField('ttlSeconds', 'Hold for seconds', 'ttlSeconds', {
        value: '300',
        inputmode: 'numeric',
        maxlength: 17,
      }),
    ],
    submit: 'Reserve',
    operation: () => {
      const ttlSeconds = numberIn(controlIn(form, 'ttlSeconds'))
      const args = { name, group: groupIn(controlIn(form, 'group')), ttlSeconds, namespace }
      return ['reserveInSequence', args, `id value formatted state expiresAt group { ${GROUP} }`]
    },
    done(reservation) {
      reservations.add(reservation)
      showIssued(reservation.group)
      return `Reserved: ${quoted(reservation.formatted)}.`
    },
    sent,
  })
  return form
}
