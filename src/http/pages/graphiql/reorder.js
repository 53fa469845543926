// What GraphiQL uses of Framer Motion: its list of tabs. Those wrap here, where they can't be dragged along one line, and
// the library would be a twelfth of the page.
import { createElement } from 'react'

export const Reorder = {
  Group: ({ values, onReorder, axis, ...properties }) => createElement('ul', properties),
  Item: ({ value, dragConstraints, dragElastic, ...properties }) => createElement('li', properties),
}
