// Two boards with numbered tickets: one sequence, with a sequence group for each board.

import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import {
  amount,
  client,
  Freshness,
  html,
  isRefused,
  KeyField,
  noteRefusal,
  Outcome,
  render,
  useAccess,
  useAction,
  useKept,
  useLive,
} from './page.js'

const BOARDS = ['NINJA', 'ROCK']

/** How many tickets of a board a window lists. */
const LISTED = 50

const IDS = `query Boards {
  sequence(name: "ticket", namespace: "boards") {
    ${BOARDS.map((name) => `${name}: group(name: "${name}") { id }`).join('\n')}
  }
}`

const COUNTS = `subscription Counts($ids: [ID!]!) {
  nodes(ids: $ids) { ... on SequenceGroup { name lastValue } }
}`

/** How long to wait before the ids are read again, in milliseconds. */
const READ_AGAIN_MS = 1000

/** The ids of the boards, by which the subscription finds them, and why they can't be read. */
function useIds() {
  const { key } = useAccess()
  const [state, setState] = useState({ ids: null })
  const [attempt, retry] = useReducer((count) => count + 1, 0)
  useEffect(() => {
    let timer
    client.query(IDS).then(
      ({ sequence }) => setState({ ids: BOARDS.map((name) => sequence[name].id) }),
      (error) => {
        noteRefusal(error)
        setState((current) => ({ ids: null, error: current.error ?? error }))
        if (!isRefused(error)) timer = setTimeout(retry, READ_AGAIN_MS)
      },
    )
    return () => clearTimeout(timer)
  }, [key, attempt])
  return { ...state, retryNow: retry }
}

function Boards() {
  const { ids, error, retryNow } = useIds()
  // Never fewer than before: answers may arrive out of order.
  const [counts, show] = useReducer(
    (all, { name, lastValue }) => ({ ...all, [name]: Math.max(all[name] ?? 0, lastValue ?? 0) }),
    {},
  )
  const live = useLive(COUNTS, ids && { ids }, ({ nodes }) => nodes.filter(Boolean).forEach(show))
  return html`
    <${KeyField} />
    <div class="tiles">
      ${BOARDS.map((name) => html`<${Board} key=${name} name=${name} count=${counts[name]} show=${show} />`)}
    </div>
    <${Freshness} live=${ids ? live : { ...live, error, retryNow, state: 'waiting' }} />`
}

function Board({ name, count, show }) {
  /** The tickets of this window, latest first. The API issues their numbers, but doesn't store their texts. */
  const [tickets, setTickets] = useKept(`tickets of ${name}`, [])
  /** The text whose ticket has no answer yet. */
  const [pending, setPending] = useKept(`pending ticket of ${name}`)
  const field = useRef()
  const action = useAction(takeNumber, `ticket ${name}`)

  async function takeNumber(typed) {
    const text = action.isUnanswered ? pending : typed
    setPending(text)
    const { nextInSequence } = await client.mutate(
      `mutation NewTicket($board: String!) {
        nextInSequence(name: "ticket", group: $board, namespace: "boards") { value formatted }
      }`,
      { board: name },
      { remember: `ticket ${name}` },
    )
    const { value, formatted } = nextInSequence
    setPending(undefined)
    setTickets([{ formatted, text }, ...tickets].slice(0, LISTED))
    // Text typed in the meantime belongs to the next ticket.
    if (field.current.value.trim() === text) field.current.value = ''
    show({ name, lastValue: value })
    return formatted
  }

  function submit(event) {
    event.preventDefault()
    const text = field.current.value.trim()
    if (text !== '' || action.isUnanswered) action.start(text)
  }

  return html`
    <section class="card board" aria-label=${name}>
      <h2>${name}</h2>
      <p class="stock count">${count !== undefined && amount(count, 'ticket')}</p>
      <form class="line" onSubmit=${submit}>
        <input type="text" maxlength="120" placeholder="A task" required aria-label=${`Task for ${name}`} ref=${field} />
        <button aria-label=${`New ticket on ${name}`}>New ticket</button>
      </form>
      <${Outcome} action=${action} on=${name} busy="Taking a number…" text=${(ticket) => `Your ticket is ${ticket}.`} failed="No ticket" doubt=${`The connection broke: “${pending}” may have a number already.`} />
      <ol class="list">
        ${tickets.map(({ formatted, text }) => html`<li key=${formatted}><strong>${formatted}</strong> ${text}</li>`)}
      </ol>
    </section>`
}

render(html`<${Boards} />`, document.querySelector('#app'))
