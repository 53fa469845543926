// The form that creates an API key, and shows it once.

import { setText } from '../../messages.js'
import { element } from '../elements.js'
import { controlIn, groupField, linesField, linesIn, numberIn, textField } from '../forms/fields.js'
import { mutationForm } from '../forms/forms.js'
import { copyButton } from '../sent.js'

const SCOPES = {
  READ: 'queries and live values',
  ADD: 'additions of up to the limit below',
  NUMBER: 'numbers of sequences, up to the limit below; reservations',
  WRITE: 'any change of values, resets, deletion',
  DEFINE: 'definitions',
  ADMIN: 'everything, also API keys',
}

/** `done` is called after each creation. */
export function createForm(done) {
  const secret = element('code', { class: 'name' })
  const shown = element(
    'div',
    { class: 'sent', hidden: true, role: 'status' },
    element('p', {}, 'Copy the key now: it is not shown again.'),
    element('pre', { tabindex: 0, 'aria-label': 'The new key' }, secret),
    copyButton(secret, 'Copy the key'),
  )
  const checks = Object.entries(SCOPES).map(([scope, meaning]) => {
    const check = element('input', { type: 'checkbox', value: scope })
    return element('label', {}, check, element('span', {}, element('strong', {}, scope), ` ${meaning}`))
  })
  const whole = { inputmode: 'numeric', maxlength: 17 }
  const form = mutationForm({
    class: 'definition',
    fields: [
      textField('label', 'Label', 'label', { hint: 'What it is for.', maxlength: 191 }),
      groupField('scopes', 'Scopes', 'grants.0.scopes', element('div', { class: 'columns' }, checks)),
      element(
        'div',
        { class: 'columns' },
        textField('namespace', 'Namespace', 'grants.0.namespace', {
          placeholder: 'every one',
          maxlength: 191,
        }),
        textField('namePrefix', 'Names that start with', 'grants.0.prefix', {
          placeholder: 'any',
          maxlength: 191,
        }),
        linesField('names', 'Or exactly these names', 'grants.0.names', { hint: 'One on each line.' }),
        linesField('origins', 'Origins of pages', 'origins', {
          hint: 'One on each line, such as https://shop.example. Without one, the key is for servers.',
        }),
        textField('maxDelta', 'Limit of ADD', 'grants.0.maxDelta', { ...whole, value: '1' }),
        textField('maxCount', 'Limit of NUMBER', 'grants.0.maxCount', { ...whole, value: '1' }),
        textField('perMinute', 'Changes a minute', 'perMinute', {
          ...whole,
          hint: 'Empty: the server’s default.',
        }),
        textField('expiresAt', 'Valid until', 'expiresAt', {
          type: 'datetime-local',
          hint: 'In your time zone. Empty: until it is revoked.',
        }),
      ),
    ],
    submit: 'Create the key',
    operation: () => ['createApiKey', read(), 'secret key { prefix }'],
    done(created) {
      setText(secret, created.secret)
      shown.hidden = false
      form.reset()
      done()
      return `Created: ${created.key.prefix}…`
    },
  })
  const control = (id) => controlIn(form, id)

  function read() {
    const scopes = [...form.querySelectorAll(':checked')].map(({ value }) => Symbol(value))
    const expiresAt = control('expiresAt').value
    const grant = {
      scopes,
      namespace: control('namespace').value || null,
      names: linesIn(control('names')),
      prefix: control('namePrefix').value,
      maxDelta: numberIn(control('maxDelta')),
      maxCount: numberIn(control('maxCount')),
    }
    return {
      label: control('label').value,
      grants: [grant],
      origins: linesIn(control('origins')),
      perMinute: numberIn(control('perMinute')),
      // The field has the local time, as has Date without a zone.
      expiresAt: expiresAt === '' ? null : new Date(expiresAt).toISOString(),
    }
  }

  return element('div', {}, form, shown)
}
