// One counter: its value, its history, its definition, and what can be done to it.

import { setText } from '../../messages.js'
import { element, nameOf, section } from '../elements.js'
import { numberText, timeText } from '../formats.js'
import { keepLive } from '../live.js'
import { ask } from '../request.js'
import { sentPanel } from '../sent.js'
import { dangers } from './dangers.js'
import { definitionForm } from './definition.js'
import { openHistory } from './history.js'
import { tryForms } from './tries.js'

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
