// Builds elements. What a caller named is only ever text: no name becomes markup.

/** Creates an element. A function is a listener, `true` an empty attribute; false, null and undefined are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name, value)
    else if (value === true) made.setAttribute(name, '')
    else if (value !== false && value != null) made.setAttribute(name, value)
  }
  made.append(...children.flat().filter((child) => child != null))
  return made
}

/** A name as it is written: its direction doesn't reorder the text around it. */
export function nameOf(text) {
  return element('bdi', { class: 'name' }, text)
}

/** A button that isn't for the submission of a form. */
export function button(text, onPress, attributes = {}) {
  return element('button', { type: 'button', class: 'quiet', click: onPress, ...attributes }, text)
}

/** A part of a view, under a heading. */
export function section(title, ...children) {
  return element('section', { class: 'panel', 'aria-label': title }, element('h3', {}, title), ...children)
}

/** A table; each column is its heading, or a pair of it and its class. */
export function table(caption, columns, rows) {
  const heads = columns.map((column) => {
    const [text, className] = [column].flat()
    return element('th', { scope: 'col', class: className }, text)
  })
  return element(
    'table',
    {},
    element('caption', { class: 'unseen' }, caption),
    element('thead', {}, element('tr', {}, heads)),
    element('tbody', {}, rows),
  )
}
