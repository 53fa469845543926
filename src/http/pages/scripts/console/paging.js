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

/** The same for a list that is shown from its end: what is after something is before it in the API's order. */
export function pageFromEnd({ after, before }) {
  return before === undefined ? { last: SIZE, before: after } : { first: SIZE, after: before }
}

/** A page of such a list in the order in which it is shown. */
export function fromEnd({ nodes, pageInfo }) {
  const { hasNextPage, hasPreviousPage, startCursor, endCursor } = pageInfo
  return {
    nodes: nodes.toReversed(),
    pageInfo: {
      hasNextPage: hasPreviousPage,
      hasPreviousPage: hasNextPage,
      startCursor: endCursor,
      endCursor: startCursor,
    },
  }
}

/** Links to the pages beside one, where there are any. */
export function pager(address, { hasNextPage, hasPreviousPage, startCursor, endCursor }) {
  const to = (text, cursors) =>
    linkTo({ ...address, after: undefined, before: undefined, ...cursors }, {}, text)
  return element(
    'nav',
    { class: 'pager', 'aria-label': 'Pages of the list' },
    hasPreviousPage ? to('First', {}) : null,
    hasPreviousPage ? to('Previous', { before: startCursor }) : null,
    hasNextPage ? to('Next', { after: endCursor }) : null,
  )
}
