// An invoice whose number is reserved when the person begins it, and confirmed when it is issued.
//
// What survives a reload: first the key, which the client remembers, and for which the API returns the same reservation
// again; then the reservation.

import { useEffect, useRef } from 'preact/hooks'
import { client, html, show, sized, useAction, useKept } from './page.js'

/** How long to wait before checking again whether the reservation has expired, in milliseconds. */
const ASK_AGAIN_MS = 2000

/** The action of reserving a number, whose key the client remembers. */
const RESERVING = 'invoice'

/** Options of mutations that take no key, as repeating them changes nothing. */
const UNKEYED = { idempotencyKey: null }

const FIELDS = 'id formatted state expiresAt'

const DEFINE = `mutation Define {
  defineSequence(
    name: "invoice"
    namespace: "shop"
    definition: { gapless: true, format: "INV-{yyyy}-{value:5}", restartEvery: YEAR }
  ) { id }
}`

const RESERVE = `mutation Reserve {
  reserveInSequence(name: "invoice", namespace: "shop", ttlSeconds: 900) { ${FIELDS} }
}`

const LOOK = `query Look($id: ID!) { node(id: $id) { ... on Reservation { ${FIELDS} } } }`

const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })

/** Reserves a number, or gets the reservation that was made with the same key. */
async function reserve() {
  // Changes nothing if it is already defined; a key that may only take numbers needs it to be.
  await client.mutate(DEFINE, {}, UNKEYED).catch((error) => {
    if (error.code !== 'FORBIDDEN') throw error
  })
  const { reserveInSequence } = await client.mutate(RESERVE, {}, { remember: RESERVING })
  return reserveInSequence
}

/** Confirms or releases a reservation, by the `name` of the mutation. */
async function settle(name, reservation) {
  try {
    const mutation = `mutation Settle($id: ID!) { ${name}(id: $id) { ${FIELDS} } }`
    return (await client.mutate(mutation, { id: reservation.id }, UNKEYED))[name]
  } catch (error) {
    if (error.code !== 'RESERVATION_CLOSED') throw error
    return { ...reservation, state: error.extensions.state }
  }
}

function Invoice() {
  const [reservation, keep] = useKept('invoice')
  const [customer, setCustomer] = useKept('customer', '')
  const field = useRef()
  const write = useRef()
  const action = useAction(async (name) => keep(await (name ? settle(name, reservation) : reserve())))
  const { isRunning, isLong, error } = action
  const isOpen = !isRunning && reservation?.state === 'RESERVED'

  useEffect(() => {
    if (!reservation && client.remembered(RESERVING)) action.start()
  }, [])

  useEffect(() => {
    if (!isOpen) return
    let isCurrent = true
    const { id, expiresAt } = reservation
    async function check() {
      // Null: the sequence was deleted, and the reservation with it.
      const { node } = await client.query(LOOK, { id }).catch(() => ({ node: { ...reservation } }))
      if (isCurrent) keep(node ?? { ...reservation, state: 'EXPIRED' })
    }
    // The database's clock decides, and this machine's may differ.
    const timer = setTimeout(check, Math.max(new Date(expiresAt) - Date.now(), ASK_AGAIN_MS))
    return () => {
      isCurrent = false
      clearTimeout(timer)
    }
  }, [isOpen, reservation])

  function begin() {
    if (reservation) {
      keep()
      setCustomer('')
    }
    action.start()
    // Now, as the button disappears; the answer may not move focus.
    write.current.hidden = false
    field.current.focus()
  }

  function close(event, name) {
    event.preventDefault()
    if (isOpen) action.start(name)
  }

  const without = error ? 'failed' : 'none'
  const state = isRunning ? 'waiting' : (reservation?.state ?? without)
  const { formatted, expiresAt } = reservation ?? {}
  const [number, status, button] = {
    none: ['No invoice begun yet.', '', 'Begin an invoice'],
    waiting: [formatted ?? '…', ''],
    failed: ['–', '', 'Try again'],
    RESERVED: [formatted, isOpen && `Yours until ${times.format(new Date(expiresAt))}.`],
    CONFIRMED: [formatted, `Issued${customer ? ` to ${customer}` : ''}.`, 'Next invoice'],
    RELEASED: [formatted, 'Discarded: the next invoice gets this number.', 'Next invoice'],
    EXPIRED: [formatted, 'The time is over: another invoice may have this number.', 'Next invoice'],
  }[state]
  return html`
    <form class="card halves tiles" onSubmit=${(event) => close(event, 'confirmReservation')}>
      <div class="panel">
        <div role="status">
          <p class="value" style=${sized(number)}>${number}</p>
          <p class="stock">${status}</p>
        </div>
        <p class="muted" role="status">${isLong && (reservation ? 'One moment…' : 'Getting the number…')}</p>
        <p class="problem" role="alert">${error && problemText(error, reservation)}</p>
        <button type="button" hidden=${!button} onClick=${begin}>${button}</button>
      </div>
      <div ref=${write} hidden=${state === 'none'}>
        <label class="muted" for="customer">To</label>
        <input type="text" id="customer" maxlength="120" placeholder="Customer" required ref=${field} value=${customer} readonly=${reservation && !isOpen} onInput=${({ target }) => setCustomer(target.value)} />
        <p class="line buttons">
          <button aria-disabled=${!isOpen}>Issue invoice</button>
          <button type="button" id="discard" class="quiet" aria-disabled=${!isOpen} onClick=${(event) => close(event, 'releaseReservation')}>Discard</button>
        </p>
      </div>
    </form>`
}

function problemText({ message, isOutcomeUnknown }, reservation) {
  if (!reservation) return `There is no number now: ${message}`
  return isOutcomeUnknown
    ? 'The connection broke: this may or may not be done. Try again: it is done only once.'
    : `Not done: ${message}`
}

show(Invoice)
