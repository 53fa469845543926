// The sequences of a namespace, and one of them: its groups, its reservations, its definition, and what can be done to it.

import { client, html, useKept } from '/page.js'
import { Detail, Field, MutationForm } from './forms.js'
import * as parts from './parts.js'

const { Elsewhere, go, List, Name, NameLink, quoted, Search, Section, Time } = parts

const SEQUENCES = `query Sequences($name: String!, ${parts.NAME_VARIABLES}, ${parts.PAGE_VARIABLES}) {
  namespace(name: $name) {
    sequences(${parts.NAME_ARGUMENTS}, ${parts.PAGE_ARGUMENTS}) { nodes { name format gapless createdAt } ${parts.PAGE_INFO} }
  }
}`

export const sequencesView = {
  title: 'Sequences of',
  named: 'namespace',
  read({ namespace: name, contains, ...page }, signal) {
    const variables = { name, contains, ...parts.pageIn(page) }
    return parts.readList(SEQUENCES, variables, signal, ({ namespace }) => namespace?.sequences)
  },
  View({ address, data }) {
    const { namespace, contains } = address
    const rowOf = ({ name, format, gapless, createdAt }) => [
      html`<${NameLink} namespace=${namespace} sequence=${name} text=${name} />`,
      [format === null ? 'the number' : html`<${Name} text=${format} />`, gapless && ', gapless'],
      html`<${Time} at=${createdAt} />`,
    ]
    return html`
      <${List} ...${{ address, rowOf, ...data }} caption="Sequences"
        columns=${[['Sequence'], ['Format'], ['Created', 'amount']]}
        empty="No sequence was used or defined in this namespace. Type a name above to open it: it is created on first use." />
      ${contains && html`<${Elsewhere} links=${[[`the sequence ${quoted(contains)}`, { namespace, sequence: contains }]]} />`}`
  },
}

const DEFINITION = 'startValue step minValue maxValue cycle format restartEvery allowRepeats timeZone gapless'
const GROUP = 'id name revision lastFormatted nextFormatted updatedAt'
const RESERVATION = 'id formatted state expiresAt'

const SEQUENCE = `query Sequence($name: String!, $namespace: String!, ${parts.NAME_VARIABLES}, ${parts.PAGE_VARIABLES}) {
  sequence(name: $name, namespace: $namespace) {
    id createdAt ${DEFINITION}
    groups(${parts.NAME_ARGUMENTS}, ${parts.PAGE_ARGUMENTS}) { nodes { ${GROUP} } ${parts.PAGE_INFO} }
  }
}`

const LIVE = `subscription LiveSequence($ids: [ID!]!) {
  nodes(ids: $ids) { ... on SequenceGroup { ${GROUP} } ... on Reservation { ${RESERVATION} } }
}`

/** How many reservations a tab keeps in mind, the newest first. */
const KEPT = 50

export const sequenceView = {
  title: 'Sequence',
  named: 'sequence',
  read: ({ namespace, sequence: name, contains, ...page }, signal) =>
    client.query(SEQUENCE, { namespace, name, contains, ...parts.pageIn(page) }, { signal }),
  View({ address, data: { sequence }, readAgain }) {
    const { namespace, sequence: name, group } = address
    const [reserved, setReserved] = useKept(`reservations of ${sequence.id}`, [])
    const known = sequence.groups.nodes
    const { live, show, nodes } = parts.useNodes(LIVE, [...known, ...reserved.map((id) => ({ id }))])
    const groups = { ...sequence.groups, nodes: nodes.slice(0, known.length) }
    // Those that were read.
    const reservations = nodes.slice(known.length).filter(({ state }) => state)

    /** Shows the group in which a number was issued, or reads the page again if it isn't on it. */
    function showIssued(group) {
      if (!group) return
      show([group])
      if (!known.some(({ id }) => id === group.id)) readAgain()
    }
    function issued({ group, formatted, count, value, lastValue }) {
      showIssued(group)
      const block = count === 1 ? '' : `${count} numbers from ${value} to ${lastValue}; the first is `
      return `Issued: ${block}${quoted(formatted)}.`
    }
    function keep({ group, ...reservation }) {
      setReserved([...new Set([reservation.id, ...reserved])].slice(0, KEPT))
      show([reservation])
      showIssued(group)
      return `Reserved: ${quoted(reservation.formatted)}.`
    }
    function restarted(group) {
      showIssued(group)
      return `The next number is ${quoted(group.nextFormatted)}.`
    }
    const times = html`Created <${Time} at=${sequence.createdAt} />.`
    const panel = html`
      <p class="muted">${sequence.createdAt === null ? 'Neither used nor defined yet: it is created on first use.' : times}</p>
      <${TryForm} key=${`${group} ${sequence.gapless}`} ...${{ ...sequence, group, issued }} reserved=${keep} />`
    const restart = {
      ...{ name, submit: 'Restart', mutation: 'restartSequence', selection: GROUP, done: restarted },
      text: 'Numbers that were issued before may be issued again.',
      fields: html`
        <${GroupField} id="restart-group" name="group" value=${group} />
        <${Field} id="nextValue" label="Next number" kind="number" hint="Empty: the first number of the definition." />`,
    }
    const deletion = {
      ...{ name, submit: 'Delete', mutation: 'deleteSequence', selection: 'name' },
      text: 'Its definition, all its groups and reservations are deleted, and can’t be restored. Its numbers restart.',
      done: () => parts.leave('sequence', name, { namespace, list: 'sequences' }),
    }
    const definition = {
      ...{ definition: sequence, mutation: 'defineSequence', selection: DEFINITION, fields: FIELDS },
      saved: readAgain,
    }
    return html`
      <${Detail} ...${{ panel, definition }} live=${nodes.length > 0 && live} questions=${[restart, deletion]}>
        ${sequence.gapless && html`<${Reservations} nodes=${reservations} show=${show} />`}
        <${Section} title="Groups"><${Groups} ...${{ address, groups }} isGapless=${sequence.gapless} /><//>
      <//>`
  },
}

const GroupField = (field) =>
  html`<${Field} id="group" label="Group" argument="group" hint="Empty: the group without a name." ...${field} />`

function TryForm({ gapless, group, issued, reserved }) {
  const [mutation, submit, done, selection] = gapless
    ? ['reserveInSequence', 'Reserve', reserved, RESERVATION]
    : ['nextInSequence', 'Issue', issued, 'value formatted count lastValue']
  const field = gapless
    ? html`<${Field} id="ttlSeconds" label="Hold for seconds" kind="number" value="300" />`
    : html`<${Field} id="count" label="How many" kind="number" value="1" />`
  return html`
    <${MutationForm} kind="line" ...${{ mutation, submit, done }} selection="${selection} group { ${GROUP} }">
      <${GroupField} value=${group} />${field}
    <//>`
}

const STATES = {
  RESERVED: ({ expiresAt }) => html`Held until <${Time} at=${expiresAt} />`,
  CONFIRMED: () => 'Confirmed: its number is final',
  RELEASED: () => 'Released: another reservation may get its number',
  EXPIRED: () => 'Expired: another reservation may get its number',
}

/** The reservations that this tab made. The API doesn't list those of others. */
function Reservations({ nodes, show }) {
  const rowOf = ({ id, ...reservation }) => {
    function done(settled) {
      show([settled])
      // Its button is going.
      document.getElementById(id).focus()
    }
    const formOf = (mutation, submit) =>
      html`<${MutationForm} ...${{ mutation, submit, done }} argsOf=${() => ({ id })} selection=${RESERVATION} />`
    const forms = [formOf('confirmReservation', 'Confirm'), formOf('releaseReservation', 'Release')]
    return [
      html`<${Name} text=${reservation.formatted} />`,
      html`<span tabindex="-1" id=${id}>${STATES[reservation.state](reservation)}</span>`,
      reservation.state === 'RESERVED' && html`<div class="line tries">${forms}</div>`,
    ]
  }
  const connection = { nodes, pageInfo: {} }
  return html`
    <${Section} title="Reservations of this tab">
      <${List} address=${{}} ...${{ connection, rowOf }} caption="Reservations of this tab"
        columns=${[['Number'], ['State'], ['Confirm or release']]}
        empty="This tab has none. The API does not list those of others." />
    <//>`
}

function Groups({ address, groups, isGapless }) {
  const [last, next] = isGapless ? ['Furthest number', 'First free number'] : ['Last number', 'Next number']
  const rowOf = ({ name, lastFormatted, nextFormatted, updatedAt }) => [
    html`<${NameLink} ...${{ ...address, group: name }} text=${name === '' ? html`<em>without a name</em>` : name} />`,
    html`<${Name} text=${lastFormatted ?? 'none'} />`,
    html`<${Name} text=${nextFormatted ?? 'exhausted'} />`,
    html`<${Time} at=${updatedAt} />`,
  ]
  const { contains, ...others } = address
  const show = (text, isInstead) =>
    go({ ...others, contains: text, after: undefined, before: undefined }, isInstead)
  const { hasNextPage, hasPreviousPage } = groups.pageInfo
  const hasMore = hasNextPage || hasPreviousPage || contains !== undefined
  return html`
    ${hasMore && html`<${Search} label="Find a group" text=${contains} show=${show} />`}
    <${List} ...${{ address, rowOf }} connection=${groups} caption="Groups"
      columns=${[['Group'], [last], [next, 'wide'], ['Last issued', 'amount wide']]} empty="No number was issued yet." />`
}

const EVERY = { '': 'Never', HOUR: 'Hourly', DAY: 'Daily', WEEK: 'Weekly', MONTH: 'Monthly', YEAR: 'Yearly' }

const FORMATS = 'Such as INV-{yyyy}-{value:5}; also {group}, {yy}, {MM}, {dd}, {HH}, {week}.'

const FIELDS = [
  ['startValue', 'First number', { kind: 'number' }],
  ['step', 'Step', { kind: 'number', hint: 'Negative counts down.' }],
  ['minValue', 'Lowest number', { kind: 'number', placeholder: 'none' }],
  ['maxValue', 'Highest number', { kind: 'number', placeholder: 'none' }],
  ['format', 'Format', { placeholder: 'the number', hint: FORMATS }],
  ['timeZone', 'Time zone', { hint: 'Empty: the namespace’s.' }],
  ['restartEvery', 'Restarts', { kind: EVERY }],
  ['cycle', 'Wraps around at the end', { kind: 'check' }],
  ['allowRepeats', 'May issue the same text again', { kind: 'check' }],
  ['gapless', 'Gapless: reserve, then confirm', { kind: 'check', hint: 'Fixed once numbers were issued.' }],
]
