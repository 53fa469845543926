// An invoice whose number is reserved when the person begins it, and confirmed when it is issued.
//
// What survives a reload: first the key, which the client remembers, and for which the API returns the same reservation
// again; then the reservation's id.

import { useEffect, useRef, useState } from 'preact/hooks'
import { client, html, show, useAction, useKept } from './page.js'

const TTL_SECONDS = 900

/** How long to wait before checking again whether the reservation has expired, in milliseconds. */
const ASK_AGAIN_MS = 5000

/** The action of reserving a number, whose key the client remembers. */
const RESERVING = 'invoice'

const FIELDS = 'id formatted state expiresAt'

const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })

/** Reserves a number, or gets the reservation that was made with the same key. */
async function reserve() {
  // Changes nothing if it is already defined; a key that may only take numbers needs it to be.
  const defined = untilAnswered(`mutation Define {
    defineSequence(
      name: "invoice"
      namespace: "shop"
      definition: { gapless: true, format: "INV-{yyyy}-{value:5}", restartEvery: YEAR }
    ) { id }
  }`)
  await defined.catch((error) => {
    if (error.code !== 'FORBIDDEN') throw error
  })
  const { reserveInSequence } = await client.mutate(
    `mutation Reserve($ttl: Int!) {
      reserveInSequence(name: "invoice", namespace: "shop", ttlSeconds: $ttl) { ${FIELDS} }
    }`,
    { ttl: TTL_SECONDS },
    { remember: RESERVING },
  )
  return reserveInSequence
}

async function look(id) {
  const query = `query Look($id: ID!) { node(id: $id) { ... on Reservation { ${FIELDS} } } }`
  const { node } = await client.query(query, { id })
  // The sequence was deleted, and the reservation with it.
  return node ?? { id, formatted: '', state: 'EXPIRED' }
}

/** Sends a mutation that takes no key, as repeating it changes nothing, until there is an answer: four times. */
async function untilAnswered(mutation, variables, attempt = 1) {
  try {
    return await client.mutate(mutation, variables, { idempotencyKey: null })
  } catch (error) {
    if (!error.isOutcomeUnknown || attempt === 4) throw error
    await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** attempt))
    return untilAnswered(mutation, variables, attempt + 1)
  }
}

function Invoice() {
  const [id, setId] = useKept('reservation')
  const [customer, setCustomer] = useKept('customer', '')
  const [reservation, setReservation] = useState()
  const field = useRef()
  const write = useRef()
  const getting = useAction(async (known) => {
    const got = await (known ? look(known) : reserve())
    setId(got.id)
    setReservation(got)
  })
  const settling = useAction(async (name) => {
    try {
      const settled = await untilAnswered(`mutation Settle($id: ID!) { ${name}(id: $id) { ${FIELDS} } }`, {
        id,
      })
      setReservation(settled[name])
    } catch (error) {
      if (error.code !== 'RESERVATION_CLOSED') throw error
      setReservation({ ...reservation, state: error.extensions.state })
    }
  })
  const state = stateOf(getting, settling, reservation)
  const isOpen = state === 'RESERVED'

  useEffect(() => {
    if (id || client.remembered(RESERVING)) getting.start(id)
  }, [])

  useEffect(() => {
    if (reservation?.state !== 'RESERVED') return
    // The database's clock decides, and this machine's may differ.
    const expiry = setTimeout(
      async () => {
        const found = await look(reservation.id).catch(() => ({ ...reservation }))
        setReservation((current) => (current === reservation ? found : current))
      },
      Math.max(new Date(reservation.expiresAt) - Date.now(), ASK_AGAIN_MS),
    )
    return () => clearTimeout(expiry)
  }, [reservation])

  function begin() {
    const isRetry = state === 'failed'
    if (!isRetry) {
      setId(undefined)
      setCustomer('')
    }
    getting.start(isRetry ? id : undefined)
    // Now, as the button disappears; the answer may not move focus.
    write.current.hidden = false
    field.current.focus()
  }

  function settle(event, name) {
    event.preventDefault()
    if (isOpen) settling.start(name)
  }

  const { formatted, expiresAt } = reservation ?? {}
  const [number, status, button] = {
    none: ['', 'No invoice begun yet.', 'Begin an invoice'],
    getting: ['…', ''],
    failed: ['–', '', 'Try again'],
    RESERVED: [formatted, isOpen && `Yours until ${times.format(new Date(expiresAt))}.`],
    closing: [formatted, ''],
    CONFIRMED: [formatted, `Issued${customer ? ` to ${customer}` : ''}.`, 'Next invoice'],
    RELEASED: [formatted, 'Discarded: the next invoice gets this number.', 'Next invoice'],
    EXPIRED: [formatted, 'The time is over: another invoice may have this number.', 'Next invoice'],
  }[state]
  const progress = (getting.isLong && 'Getting the number…') || (settling.isLong && 'One moment…')
  return html`
    <form class="card invoice" onSubmit=${(event) => settle(event, 'confirmReservation')}>
      <div role="status">
        <p class="number">${number}</p>
        <p class="stock">${status}</p>
      </div>
      <div id="invoice" ref=${write} hidden=${state === 'none'}>
        <label>To <input type="text" id="customer" maxlength="120" placeholder="Customer" required ref=${field} value=${customer} readonly=${!['getting', 'failed', 'RESERVED'].includes(state)} onInput=${({ target }) => setCustomer(target.value)} /></label>
        <p class="line">
          <button aria-disabled=${!isOpen}>Issue invoice</button>
          <button type="button" id="discard" class="quiet" aria-disabled=${!isOpen} onClick=${(event) => settle(event, 'releaseReservation')}>Discard</button>
        </p>
      </div>
      <p class="progress" role="status">${progress}</p>
      <p class="problem" role="alert">${problemText(getting, settling)}</p>
      <button type="button" id="begin" hidden=${!button} onClick=${begin}>${button}</button>
    </form>`
}

/** `none`, `getting` (reserving or reading), `failed`, `closing` (confirming or releasing), or that of the reservation. */
function stateOf(getting, settling, reservation) {
  if (getting.isRunning) return 'getting'
  if (getting.error) return 'failed'
  if (settling.isRunning) return 'closing'
  return reservation?.state ?? 'none'
}

function problemText({ error: missing }, { error }) {
  if (missing) return `There is no number now: ${missing.message}`
  if (!error) return ''
  return error.isOutcomeUnknown
    ? 'The connection broke: this may or may not be done. Try again: it is done only once.'
    : `Not done: ${error.message}`
}

show(Invoice)
