// One counter: its value, its history, its definition, and what can be done to it.

import { setText } from '../messages.js'
import { go, readAddress } from './address.js'
import { definitionForm } from './counterDefinition.js'
import { button, element, nameOf, section } from './elements.js'
import { controlIn, numberIn, textField } from './fields.js'
import { numberText, quoted, timeText } from './formats.js'
import { mutationForm } from './forms.js'
import { openHistory } from './history.js'
import { keepLive } from './live.js'
import { question } from './question.js'
import { ask } from './request.js'
import { sentPanel } from './sent.js'

const STATE = 'revision value updatedAt createdAt'
const DEFINITION = 'minValue maxValue overflow slots timeZone periods { period keepDays }'

const LIVE = `subscription LiveCounter($ids: [ID!]!, $period: Period!, $last: Int!) {
  nodes(ids: $ids) {
    ... on Counter { ${STATE} timeZone history(period: $period, last: $last) { start value } }
  }
}`

export async function counterView({ namespace, counter: name, period }, signal) {
  const { counter } = await ask(
    `query Counter($name: String!, $namespace: String!) {
      counter(name: $name, namespace: $namespace) { id ${STATE} ${DEFINITION} }
    }`,
    { name, namespace },
  )
  const [value, times] = [element('p', { class: 'value' }), element('p', { class: 'count' })]
  const { panel, show: showSent } = sentPanel()
  const history = openHistory(period, (variables) => watch?.(variables), signal)
  const form = definitionForm({
    namespace,
    name,
    counter,
    selection: DEFINITION,
    done: () => watch?.({}),
    showSent,
  })
  let revision = 0
  /** Replaces the variables of the subscription, once there is one. */
  let watch

  /** Shows a state unless a newer one is shown. */
  function show(state) {
    if (state.revision < revision) return
    revision = state.revision
    setText(value, numberText(state.value))
    setText(times, timesText(state))
    // Null if neither this period nor a finer one is kept.
    if (state.history !== undefined) history.show(state)
  }

  show(counter)
  return {
    title: ['Counter ', nameOf(name)],
    names: [name, namespace],
    content: [
      element('div', { class: 'panel' }, value, times, tryForms(namespace, name, showSent), panel),
      section('History', history.controls, history.figure, history.zone),
      section('Definition', form),
      section('Reset or delete', dangers(namespace, name, showSent)),
    ],
    start() {
      history.start()
      const live = { ids: [counter.id], ...history.variables() }
      watch = keepLive(LIVE, live, show, signal)
    },
  }
}

function timesText({ createdAt, updatedAt }) {
  if (createdAt === null) return 'Neither written nor defined yet: it is created on first use.'
  return `Created ${timeText(createdAt)}, last change ${timeText(updatedAt)}.`
}

const CHANGE = 'value previousValue appliedDelta'

function tryForms(namespace, name, sent) {
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

function dangers(namespace, name, sent) {
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
