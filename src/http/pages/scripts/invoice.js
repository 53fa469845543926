// An invoice whose number is reserved when the person begins it, and confirmed when it is issued.
//
// What survives a reload: first a key, for which the API returns the same reservation again, then the reservation's id.
//
// States of the page: `none` (no invoice begun), `getting` (waiting for the reservation), `failed` (didn't get it),
// `closing` (waiting for it to be confirmed or released), and those of the reservation: RESERVED, CONFIRMED, RELEASED,
// EXPIRED.

import { ask, askOnce, isInDoubt, newKey } from './api.js'
import { setEnabled, setText, withProgress } from './messages.js'

const TTL_SECONDS = 900

/** How long to wait before checking again whether the reservation has expired, in milliseconds. */
const ASK_AGAIN_MS = 5000

const FIELDS = 'id formatted state expiresAt'

const find = (selector) => document.querySelector(selector)
const [number, statusText, progress, problem] = ['.number', '.status', '.progress', '.problem'].map(find)
const [customer, issue, discard, begin] = ['#customer', '[type=submit]', '#discard', '#begin'].map(find)
const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })

let state = 'none'
let reservation
/** The function that failed to get the reservation, to be retried. */
let retry
let expiry

find('form').addEventListener('submit', (event) => {
  event.preventDefault()
  settle('confirmReservation', 'Issuing…')
})
discard.addEventListener('click', () => settle('releaseReservation', 'Discarding…'))
customer.addEventListener('input', () => sessionStorage.setItem('customer', customer.value))
begin.addEventListener('click', () => {
  if (state === 'failed') get(retry)
  else beginInvoice()
  // Now, as the button disappears; the answer may not move focus.
  customer.focus()
})

function beginInvoice() {
  sessionStorage.setItem('idempotencyKey', newKey())
  for (const name of ['reservation', 'customer']) sessionStorage.removeItem(name)
  customer.value = ''
  get(reserve)
}

/** Gets the reservation by `reserve` or `look`. */
async function get(way) {
  enter('getting')
  setText(number, '…')
  for (const element of [statusText, problem]) setText(element, '')
  try {
    show(await withProgress(progress, 'Getting the number…', way))
  } catch (error) {
    retry = way
    enter('failed')
    setText(number, '–')
    setText(problem, `There is no number now: ${error.message}`)
  }
}

/** Reserves a number, or gets the reservation that was made with the same key. */
async function reserve() {
  // Changes nothing if it is already defined.
  await askOnce(
    `mutation Define {
      defineSequence(
        name: "invoice"
        namespace: "shop"
        definition: { gapless: true, format: "INV-{yyyy}-{value:5}", restartEvery: YEAR }
      ) { id }
    }`,
    {},
    null,
  )
  const { reserveInSequence } = await askOnce(
    `mutation Reserve($ttl: Int!) {
      reserveInSequence(name: "invoice", namespace: "shop", ttlSeconds: $ttl) { ${FIELDS} }
    }`,
    { ttl: TTL_SECONDS },
    sessionStorage.getItem('idempotencyKey'),
  )
  sessionStorage.setItem('reservation', reserveInSequence.id)
  return reserveInSequence
}

/** Reads the reservation. */
async function look() {
  const id = sessionStorage.getItem('reservation')
  const query = `query Look($id: ID!) { node(id: $id) { ... on Reservation { ${FIELDS} } } }`
  const { node } = await ask(query, { id })
  // The sequence was deleted, and the reservation with it.
  return node ?? { id, formatted: '', state: 'EXPIRED' }
}

/** Confirms or releases the reservation. Repeating either changes nothing, so neither needs a key. */
async function settle(field, progressText) {
  if (state !== 'RESERVED') return
  enter('closing')
  setText(problem, '')
  try {
    const settled = await withProgress(progress, progressText, () =>
      askOnce(`mutation Settle($id: ID!) { ${field}(id: $id) { ${FIELDS} } }`, { id: reservation.id }, null),
    )
    show(settled[field])
  } catch (error) {
    if (error.code === 'RESERVATION_CLOSED') return show({ ...reservation, state: error.state })
    show(reservation)
    setText(problem, isInDoubt(error) ? DOUBT : `Not done: ${error.message}`)
  }
}

const DOUBT = 'The connection broke: this may or may not be done. Try again: it is done only once.'

function show(found) {
  reservation = found
  const { formatted, expiresAt } = found
  const texts = {
    RESERVED: () => `Yours until ${times.format(new Date(expiresAt))}.`,
    CONFIRMED: () => `Issued${customer.value ? ` to ${customer.value}` : ''}.`,
    RELEASED: () => 'Discarded: the next invoice gets this number.',
    EXPIRED: () => 'The time is over: another invoice may have this number.',
  }
  setText(number, formatted)
  setText(statusText, texts[found.state]())
  enter(found.state)
  clearTimeout(expiry)
  if (found.state === 'RESERVED') {
    expiry = setTimeout(lookAgain, Math.max(new Date(expiresAt) - Date.now(), ASK_AGAIN_MS))
  }
}

/** Checks whether the reservation has expired: the database's clock decides, and this machine's may differ. */
async function lookAgain() {
  const before = reservation
  const found = await look().catch(() => before)
  if (state === 'RESERVED' && reservation === before) show(found)
}

function enter(next) {
  state = next
  find('#invoice').hidden = state === 'none'
  customer.readOnly = !['getting', 'failed', 'RESERVED'].includes(state)
  for (const button of [issue, discard]) setEnabled(button, state === 'RESERVED')
  begin.hidden = ['getting', 'closing', 'RESERVED'].includes(state)
  setText(begin, state === 'failed' ? 'Try again' : 'Next invoice')
}

customer.value = sessionStorage.getItem('customer') ?? ''
if (sessionStorage.getItem('reservation')) get(look)
else if (sessionStorage.getItem('idempotencyKey')) get(reserve)
