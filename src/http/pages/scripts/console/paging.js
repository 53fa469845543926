// Pages of lists, by cursors in the address: nothing is loaded that isn't shown.

import { linkTo } from './address.js'
import { element } from './elements.js'

const SIZE = 50

/** Arguments of a list, and their declarations as variables. */
export const PAGE_VARIABLES = '$first: Int, $after: String, $last: Int, $before: String'
export const PAGE_ARGUMENTS = 'first: $first, after: $after, last: $last, before: $before'
export const PAGE_INFO = 'pageInfo { hasNextPage hasPreviousPage startCursor endCursor }'

/** The values of these variables. */
export function pageIn({ after, before }) {
  return before === undefined ? { first: SIZE, after } : { last: SIZE, before }
}

/** Links to the pages beside one, where there are any. */
export function pager(address, { hasNextPage, hasPreviousPage, startCursor, endCursor }) {
  const to = (id, text, cursors) =>
    linkTo({ ...address, after: undefined, before: undefined, ...cursors }, { id }, text)
  return element(
    'nav',
    { class: 'pager', 'aria-label': 'Pages of the list' },
    hasPreviousPage ? to('first', 'First', {}) : null,
    hasPreviousPage ? to('previous', 'Previous', { before: startCursor }) : null,
    hasNextPage ? to('next', 'Next', { after: endCursor }) : null,
  )
}
