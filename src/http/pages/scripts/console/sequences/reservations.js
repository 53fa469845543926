// The reservations that this tab made in a gapless sequence. The API doesn't list those of others.

import { setText } from '../../messages.js'
import { element, nameOf, table } from '../elements.js'
import { timeText } from '../formats.js'
import { mutationForm } from '../forms/forms.js'

/** How many of them a tab keeps in mind, the newest first. */
const KEPT = 50

const STATES = {
  RESERVED: ({ expiresAt }) => `Held until ${timeText(expiresAt)}`,
  CONFIRMED: () => 'Confirmed: its number is final',
  RELEASED: () => 'Released: another reservation may get its number',
  EXPIRED: () => 'Expired: another reservation may get its number',
}

/** Shows them. `onChange` is called when their ids have changed. */
export function openReservations(sequenceId, { sent, onChange }) {
  const stored = `reservations of ${sequenceId}`
  let ids = JSON.parse(sessionStorage.getItem(stored) ?? '[]')
  const rows = new Map()
  const place = element('tbody')
  const list = table('Reservations of this tab', ['Number', 'State', 'Confirm or release'], [])
  list.tBodies[0].replaceWith(place)
  const none = element('p', { class: 'none' }, 'This tab has none. The API does not list those of others.')

  function setIds(changed) {
    ids = changed
    sessionStorage.setItem(stored, JSON.stringify(ids))
  }

  function show(reservation) {
    const found = rows.get(reservation.id)
    if (found) return found.show(reservation)
    const opened = openRow(reservation, sent)
    rows.set(reservation.id, opened)
    // Those that were stored arrive in their order.
    if (ids[0] === reservation.id) place.prepend(opened.row)
    else place.append(opened.row)
    showWhetherEmpty()
  }

  function showWhetherEmpty() {
    list.hidden = rows.size === 0
    none.hidden = rows.size > 0
  }

  showWhetherEmpty()
  return {
    element: element('div', {}, none, list),
    ids: () => ids,
    show,
    add(reservation) {
      if (!ids.includes(reservation.id)) setIds([reservation.id, ...ids].slice(0, KEPT))
      show(reservation)
      onChange()
    },
  }
}

function openRow({ id, formatted, ...first }, sent) {
  const state = element('td', { tabindex: -1 })
  const settle = (field, submit, isQuiet = false) =>
    mutationForm({
      submit,
      isQuiet,
      operation: () => [field, { id }, 'id state expiresAt'],
      done: settled,
      sent,
    })
  const buttons = element(
    'div',
    { class: 'choices' },
    settle('confirmReservation', 'Confirm'),
    settle('releaseReservation', 'Release', true),
  )
  function show(reservation) {
    setText(state, STATES[reservation.state](reservation))
    for (const form of buttons.children) form.hidden = reservation.state !== 'RESERVED'
  }

  function settled(reservation) {
    const hadFocus = buttons.contains(document.activeElement)
    show(reservation)
    // Its button is gone.
    if (hadFocus) state.focus()
  }

  show(first)
  return {
    row: element(
      'tr',
      {},
      element('th', { scope: 'row' }, nameOf(formatted)),
      state,
      element('td', {}, buttons),
    ),
    show,
  }
}
