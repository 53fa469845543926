// Keeps the numbers of a page live, by one subscription for all of them.

import { ask } from './api.js'
import { setText, withProgress } from './messages.js'

/** Pauses before a stream that ended or was refused is opened again, in milliseconds: doubled each time. */
const SHORTEST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 15_000

/**
 * Calls `show` with the data of each event of a subscription: the first has everything, the others have what changed.
 * The stream is closed while the page is hidden, as a browser opens six to a server at most. While there is no stream,
 * the same operation as a query reads the numbers, or the reason why there are none, which is shown in `element`.
 */
export function subscribe(operation, variables, show, element) {
  const progress = element.querySelector('.progress')
  const problem = element.querySelector('.problem')
  const address = `/graphql?${new URLSearchParams({ query: `subscription ${operation}`, variables: JSON.stringify(variables) })}`
  let source
  let timer
  let pauseMs = SHORTEST_PAUSE_MS
  let hasNumbers = false
  let onFirst

  function open() {
    close()
    if (document.hidden) return
    source = new EventSource(address)
    source.addEventListener('next', ({ data }) => {
      const result = JSON.parse(data)
      // Without data, it says why the stream ends.
      if (result.data) update(result.data)
    })
    source.addEventListener('complete', retry)
    // A browser doesn't open a stream again that was refused, so this page does it in all cases.
    source.addEventListener('error', retry)
  }

  function close() {
    source?.close()
    clearTimeout(timer)
  }

  function update(data) {
    show(data)
    hasNumbers = true
    pauseMs = SHORTEST_PAUSE_MS
    setText(problem, '')
    onFirst?.()
  }

  async function retry() {
    close()
    const own = source
    try {
      update(await ask(`query ${operation}`, variables))
    } catch (error) {
      // Keeps the first reason: screen readers would announce each new text.
      if (problem.textContent === '') setText(problem, problemText(error, hasNumbers))
      onFirst?.()
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
    }
    // Unless it was opened again meanwhile.
    if (own === source) timer = setTimeout(open, pauseMs * (0.5 + Math.random()))
  }

  document.addEventListener('visibilitychange', open)
  withProgress(progress, 'Loading the numbers…', () => new Promise((resolve) => (onFirst = resolve)))
  open()
}

function problemText({ code, message }, hasNumbers) {
  if (hasNumbers) return `The numbers may be old: ${message}`
  return code === 'NO_ANSWER'
    ? `${message} This page keeps trying.`
    : `The numbers can't be reached: ${message}`
}
