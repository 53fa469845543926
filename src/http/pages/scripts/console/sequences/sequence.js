// One sequence: its groups, its definition, and what can be done to it.

import { element, nameOf, section } from '../elements.js'
import { timeText } from '../formats.js'
import { keepLive } from '../live.js'
import { PAGE_ARGUMENTS, PAGE_INFO, PAGE_VARIABLES, pageIn } from '../paging.js'
import { ask } from '../request.js'
import { sentPanel } from '../sent.js'
import { dangers } from './dangers.js'
import { definitionForm } from './definition.js'
import { GROUP, openGroups } from './groups.js'
import { openReservations } from './reservations.js'
import { nextForm, reserveForm } from './tries.js'

const DEFINITION = 'startValue step minValue maxValue cycle format restartEvery allowRepeats timeZone gapless'

const LIVE = `subscription LiveSequence($ids: [ID!]!) {
  nodes(ids: $ids) {
    ... on SequenceGroup { __typename ${GROUP} }
    ... on Reservation { __typename id formatted state expiresAt }
  }
}`

export async function sequenceView(address, signal) {
  const { namespace, sequence: name, group = '' } = address
  const read = async () => {
    const answer = await ask(groupsQuery, {
      name,
      namespace,
      prefix: address.prefix ?? '',
      ...pageIn(address),
    })
    return answer.sequence
  }
  const sequence = await read()
  const { panel, show: showSent } = sentPanel()
  const groups = openGroups(address, sequence)
  const reservations = openReservations(sequence.id, {
    sent: showSent,
    onChange: () => watch?.({ ids: ids() }),
  })
  /** Replaces the ids of the subscription, once there is one. */
  let watch

  const ids = () => [...groups.ids(), ...reservations.ids()]

  /** Shows the page of groups anew, as a number may have created one. */
  async function showGroups() {
    const { groups: connection } = await read()
    if (signal.aborted) return
    groups.replace(connection)
    watch?.({ ids: ids() })
  }

  function show(node) {
    if (node.__typename === 'SequenceGroup') groups.show(node)
    else reservations.show(node)
  }

  /** Shows the group in which a number was issued, or reads the page again if it isn't on it. */
  function showIssued(state) {
    if (state && !groups.show(state)) showGroups().catch(() => {})
  }

  const options = { namespace, name, group, sent: showSent, showIssued, reservations }
  return {
    title: ['Sequence ', nameOf(name)],
    names: [name, namespace],
    content: [
      element(
        'div',
        { class: 'panel' },
        element('p', { class: 'count' }, createdText(sequence)),
        sequence.gapless ? reserveForm(options) : nextForm(options),
        panel,
      ),
      sequence.gapless ? section('Reservations of this tab', reservations.element) : null,
      section('Groups', groups.element),
      section(
        'Definition',
        definitionForm({ namespace, name, sequence, selection: DEFINITION, sent: showSent }),
      ),
      section('Restart or delete', dangers({ namespace, name, group, sent: showSent, showIssued })),
    ],
    start: () => {
      watch = keepLive(LIVE, { ids: ids() }, show, signal)
    },
  }
}

const groupsQuery = `query Sequence($name: String!, $namespace: String!, $prefix: String!, ${PAGE_VARIABLES}) {
  sequence(name: $name, namespace: $namespace) {
    id
    createdAt
    ${DEFINITION}
    groups(prefix: $prefix, ${PAGE_ARGUMENTS}) {
      nodes { ${GROUP} }
      ${PAGE_INFO}
    }
  }
}`

function createdText({ createdAt }) {
  return createdAt === null
    ? 'Neither used nor defined yet: it is created on first use.'
    : `Created ${timeText(createdAt)}.`
}
