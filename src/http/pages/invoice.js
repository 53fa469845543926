// An invoice whose number is reserved while it is written, and confirmed when it is issued.
//
// What survives a reload is a key: asked with the same key again, the API tells of the same reservation, as it stands.

import { ask, askOnce, newKey } from './api.js'

const TTL_SECONDS = 900

const find = (selector) => document.querySelector(selector)
const trouble = find('#trouble')
const customer = find('#customer')
const [issue, discard, another] = ['[type=submit]', '#discard', '#another'].map(find)
const times = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit' })

let reservation

find('form').addEventListener('submit', (event) => {
  event.preventDefault()
  settle('confirmReservation')
})
discard.addEventListener('click', () => settle('releaseReservation'))
another.addEventListener('click', () => begin())
customer.addEventListener('input', () => sessionStorage.setItem('customer', customer.value))

/** Holds a number for a new invoice, and puts an empty one on the page. */
async function begin() {
  sessionStorage.setItem('invoice', newKey())
  sessionStorage.removeItem('customer')
  await reserve()
}

/** Reserves a number, or is told of the one that this window has reserved before. */
async function reserve() {
  customer.value = sessionStorage.getItem('customer') ?? ''
  try {
    // Said at each visit: where it is so already, nothing is changed.
    await ask(
      `mutation Define {
        defineSequence(
          name: "invoice"
          namespace: "shop"
          definition: { gapless: true, format: "INV-{yyyy}-{value:5}", restartEvery: YEAR }
        ) { id }
      }`,
    )
    const { reserveInSequence } = await askOnce(
      `mutation Reserve($ttl: Int!) {
        reserveInSequence(name: "invoice", namespace: "shop", ttlSeconds: $ttl) { id formatted state expiresAt }
      }`,
      { ttl: TTL_SECONDS },
      sessionStorage.getItem('invoice'),
    )
    trouble.textContent = ''
    show(reserveInSequence)
    customer.focus()
  } catch (error) {
    trouble.textContent = `There is no number now: ${error.message}`
    another.hidden = false
  }
}

/** Makes the number final, or gives it back. Both can be said twice, so both can be sent again without a key. */
async function settle(field) {
  for (const button of [issue, discard]) button.disabled = true
  try {
    const data = await askOnce(
      `mutation Settle($id: ID!) { ${field}(id: $id) { id formatted state expiresAt } }`,
      { id: reservation.id },
      null,
    )
    trouble.textContent = ''
    show(data[field])
  } catch (error) {
    if (error.code === 'RESERVATION_CLOSED') return show({ ...reservation, state: error.state })
    trouble.textContent = `Not done: ${error.message}`
    show(reservation)
  }
}

function show(told) {
  reservation = told
  const { formatted, state, expiresAt } = told
  const isOpen = state === 'RESERVED'
  const texts = {
    RESERVED: `Yours until ${times.format(new Date(expiresAt))}.`,
    CONFIRMED: `Issued${customer.value ? ` to ${customer.value}` : ''}.`,
    RELEASED: 'Discarded: the next invoice gets this number.',
    EXPIRED: 'The time is over: another invoice may have this number.',
  }
  find('.number').textContent = formatted
  find('.sold').textContent = texts[state]
  customer.disabled = !isOpen
  for (const button of [issue, discard]) {
    button.disabled = !isOpen
    button.hidden = !isOpen
  }
  another.hidden = isOpen
  if (!isOpen) another.focus()
}

if (sessionStorage.getItem('invoice')) reserve()
else begin()
