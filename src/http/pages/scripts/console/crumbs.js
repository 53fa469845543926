// The way from all namespaces to what is shown.

import { linkTo } from './address.js'
import { nameOf } from './elements.js'

/** Links to the views beside or above that of an address; the present one is marked. */
export function crumbs({ view, namespace, list, counter, sequence }) {
  if (view === 'keys' || namespace === undefined) return []
  const shown = counter ?? sequence
  const isShown = (name) => shown === undefined && (list ?? 'counters') === name
  const current = (name) => ({ 'aria-current': isShown(name) ? 'page' : null })
  return [
    linkTo({ namespace }, current('counters'), 'Counters of ', nameOf(namespace)),
    linkTo({ namespace, list: 'sequences' }, current('sequences'), 'Sequences of ', nameOf(namespace)),
  ]
}
