// What the console shows is in its address, so that reloading, going back and links work.

import { element } from './elements.js'

/** The parts of the present address, all of them texts: `view`, `namespace`, `list`, `counter`, `sequence`, … */
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.search))
}

/** An address of these parts; those that are undefined are left out. */
export function addressOf(parts) {
  const present = Object.entries(parts).filter(([, value]) => value !== undefined)
  return present.length === 0 ? '/console' : `/console?${new URLSearchParams(present)}`
}

export function linkTo(parts, attributes, ...children) {
  return element('a', { href: addressOf(parts), ...attributes }, ...children)
}

/** Goes to an address as if by a link. */
export function go(parts) {
  navigate(addressOf(parts))
}

/** Changes parts of the address of what is shown, without showing it again. */
export function amendAddress(parts) {
  history.replaceState(null, '', addressOf({ ...readAddress(), ...parts }))
}

let show = () => {}

/** Calls `onShow` for each address to be shown from now on, by links, `go`, and the browser's buttons. */
export function openNavigation(onShow) {
  show = onShow
  addEventListener('popstate', () => show())
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a')
    const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
    if (!isPlain || link?.origin !== location.origin || link.pathname !== '/console') return
    event.preventDefault()
    navigate(link.href)
  })
}

function navigate(address) {
  history.pushState(null, '', address)
  show()
}
