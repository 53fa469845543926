// In place of Framer Motion, of which GraphiQL uses the list of tabs, to drag them along one line. Here they are
// buttons that no other control contains, and cost 35 kB less.
import { cloneElement, createElement } from 'react'

export const Reorder = {
  Group: ({ values, onReorder, axis, role, ...properties }) => createElement('ul', properties),
  Item({ value, dragConstraints, dragElastic, role, children, 'aria-selected': isSelected, ...properties }) {
    const [select, close] = children
    return createElement('li', properties, cloneElement(select, { 'aria-current': isSelected }), close)
  },
}
