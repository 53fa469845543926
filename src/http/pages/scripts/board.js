// Two boards with numbered tickets: one sequence, with a sequence group for each board.

import { useRef } from 'preact/hooks'
import { Freshness, useLive } from './live.js'
import { amount, client, html, Outcome, show, useAction, useKept, useRead } from './page.js'

const BOARDS = ['NINJA', 'ROCK']

const LISTED = 50

const FIELDS = 'id name revision lastValue'

const READ = `query Boards {
  sequence(name: "ticket", namespace: "boards") {
    ${BOARDS.map((name) => `${name}: group(name: "${name}") { ${FIELDS} }`).join('\n')}
  }
}`

const NEW_TICKET = `mutation NewTicket($board: String!) {
  nextInSequence(name: "ticket", group: $board, namespace: "boards") { formatted group { ${FIELDS} } }
}`

const COUNTS = `subscription Counts($ids: [ID!]!) { nodes(ids: $ids) { ... on SequenceGroup { ${FIELDS} } } }`

function Boards() {
  const { data, error, readAgain } = useRead((signal) => client.query(READ, {}, { signal }))
  const variables = data && { ids: BOARDS.map((name) => data.sequence[name].id) }
  const { states, show: update, live } = useLive(COUNTS, variables, { by: 'id' })
  const groupOf = (name) => states[data?.sequence[name].id] ?? data?.sequence[name]
  const boardOf = (name) =>
    html`<${Board} key=${name} name=${name} group=${groupOf(name)} update=${update} />`
  return html`
    <div class="halves tiles">${BOARDS.map(boardOf)}</div>
    <${Freshness} live=${data ? { ...live, hasNumbers: true } : { ...live, error, retryNow: readAgain, state: 'waiting' }} />`
}

function Board({ name, group, update }) {
  /** The tickets of this window, latest first. The API issues their numbers, but doesn't store their texts. */
  const [tickets, setTickets] = useKept(`tickets of ${name}`, [])
  /** The text whose ticket has no answer yet. */
  const [pending, setPending] = useKept(`pending ticket of ${name}`)
  const field = useRef()
  const remember = `ticket ${name}`
  const action = useAction(takeNumber, remember)

  async function takeNumber(typed) {
    const text = action.isUnanswered ? pending : typed
    setPending(text)
    const { nextInSequence } = await client.mutate(NEW_TICKET, { board: name }, { remember })
    const { formatted, group } = nextInSequence
    setPending(undefined)
    setTickets([{ formatted, text }, ...tickets].slice(0, LISTED))
    // Text typed in the meantime belongs to the next ticket.
    if (field.current.value.trim() === text) field.current.value = ''
    update([group])
    return formatted
  }

  function submit(event) {
    event.preventDefault()
    const text = field.current.value.trim()
    if (text !== '' || action.isUnanswered) action.start(text)
  }

  const itemOf = ({ formatted, text }) =>
    html`<li key=${formatted}><strong>${formatted}</strong> ${text}</li>`
  return html`
    <section class="card board" aria-label=${name}>
      <h2>${name}</h2>
      <p class="stock">${group && amount(group.lastValue ?? 0, 'ticket')}</p>
      <form class="line" onSubmit=${submit}>
        <input type="text" maxlength="120" placeholder="A task" required aria-label=${`Task for ${name}`} ref=${field} />
        <button aria-label=${`New ticket on ${name}`}>New ticket</button>
      </form>
      <${Outcome} action=${action} on=${name} busy="Taking a number…" text=${(ticket) => `Your ticket is ${ticket}.`} failed="No ticket" doubt=${`The connection broke: “${pending}” may have a number already.`} />
      <ol class="list">${tickets.map(itemOf)}</ol>
    </section>`
}

show(Boards)
