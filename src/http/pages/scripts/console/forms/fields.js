// Fields of forms: a label, a control, a hint, and what the API says is wrong with it.

import { setText } from '../../messages.js'
import { element } from '../elements.js'

/** A field of one control. `argument` is the API's argument that it is for. */
function field(id, label, argument, hint, control) {
  control.id = id
  control.setAttribute('aria-describedby', `${id}-hint ${id}-problem`)
  return element(
    'div',
    { class: 'field', 'data-argument': argument },
    element('label', { for: id }, label),
    control,
    element('p', { class: 'hint', id: `${id}-hint` }, hint),
    element('p', { class: 'problem', id: `${id}-problem`, role: 'alert' }),
  )
}

/** A line of text; the attributes are those of `input`. */
export function textField(id, label, argument, { hint, ...attributes } = {}) {
  const input = element('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...attributes })
  return field(id, label, argument, hint, input)
}

/** Several lines of text, each an item. */
export function linesField(id, label, argument, { hint } = {}) {
  const area = element('textarea', { rows: 2, spellcheck: 'false' })
  return field(id, label, argument, hint, area)
}

/** One of several values, given as pairs of value and text. */
export function choiceField(id, label, argument, choices, { hint, value, ...attributes } = {}) {
  const options = choices.map(([choice, text]) =>
    element('option', { value: choice, selected: choice === value }, text),
  )
  return field(id, label, argument, hint, element('select', attributes, options))
}

export function checkField(id, label, argument, { hint, checked } = {}) {
  const made = field(id, label, argument, hint, element('input', { type: 'checkbox', checked }))
  made.classList.add('check')
  return made
}

/** Several controls under one label. */
export function groupField(id, label, argument, ...controls) {
  return element(
    'fieldset',
    { class: 'field', 'data-argument': argument, 'aria-describedby': `${id}-problem` },
    element('legend', {}, label),
    ...controls,
    element('p', { class: 'problem', id: `${id}-problem`, role: 'alert' }),
  )
}

/** The control of a form by its id. */
export function controlIn(form, id) {
  return form.querySelector(`[id="${id}"]`)
}

/**
 * What stands in a field for whole numbers: null if it is empty. Other text remains text, so that the API says what is
 * wrong with it.
 */
export function numberIn(control) {
  const text = control.value.trim()
  if (text === '') return null
  return /^[+-]?\d{1,16}$/.test(text) ? Number(text) : text
}

/** The items of a field for lines; null if there are none. */
export function linesIn(control) {
  const lines = control.value.split('\n').filter((line) => line.trim() !== '')
  return lines.length === 0 ? null : lines
}

/** Shows an error beside the field that it is about, or else in `rest`. */
export function showProblem(form, { argument, message }, rest) {
  const isOf = (name) => argument === name || argument?.startsWith(`${name}.`)
  const place = [...form.querySelectorAll('[data-argument]')].find(({ dataset }) => isOf(dataset.argument))
  place?.querySelector('input, select, textarea')?.setAttribute('aria-invalid', 'true')
  setText(place?.querySelector('.problem[id]') ?? rest, message)
}

export function clearProblems(form) {
  for (const place of form.querySelectorAll('.problem')) setText(place, '')
  for (const control of form.querySelectorAll('[aria-invalid]')) control.removeAttribute('aria-invalid')
}
