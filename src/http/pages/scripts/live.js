// Keeps the numbers of a page live, by one subscription for all of them.

import { ask } from './api.js'
import { setText, withProgress } from './messages.js'

/** Pauses before a stream that has ended is opened again, in milliseconds: doubled after each failure. */
const SHORTEST_MS = 500
const LONGEST_MS = 15_000

/**
 * Calls `show` with the data of each event of a subscription: the first has everything, the others have what changed.
 * When the stream has ended, the same operation as a query reads the numbers, or the reason why there are none, which is
 * shown in `element`; then the stream is opened again. `variablesOf` returns the variables, or a promise of them.
 */
export async function subscribe(operation, variablesOf, show, element) {
  const [progress, problem] = ['.progress', '.problem'].map((selector) => element.querySelector(selector))
  let hasNumbers = false
  let pauseMs = SHORTEST_MS
  let onFirst
  withProgress(progress, 'Loading the numbers…', () => new Promise((resolve) => (onFirst = resolve)))

  function update(data) {
    show(data)
    hasNumbers = true
    pauseMs = SHORTEST_MS
    setText(problem, '')
    onFirst()
  }

  for (;;) {
    await untilVisible()
    try {
      const variables = await variablesOf()
      await stream(`subscription ${operation}`, variables, update)
      if (!document.hidden) update(await ask(`query ${operation}`, variables))
    } catch (error) {
      // Keeps the first reason: screen readers would announce each new text.
      if (problem.textContent === '') setText(problem, problemText(error, hasNumbers))
      onFirst()
      pauseMs = Math.min(2 * pauseMs, LONGEST_MS)
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())))
  }
}

/**
 * Passes the data of each event on, until the stream ends or breaks. Closes it when the page is hidden: a browser opens
 * six to a server at most.
 */
function stream(query, variables, update) {
  const parameters = new URLSearchParams({ query, variables: JSON.stringify(variables) })
  const source = new EventSource(`/graphql?${parameters}`)
  return new Promise((resolve) => {
    function end() {
      source.close()
      document.removeEventListener('visibilitychange', end)
      resolve()
    }
    source.addEventListener('next', ({ data }) => {
      const result = JSON.parse(data)
      // The query gets the same errors, and shows them.
      if (result.errors) end()
      else update(result.data)
    })
    source.addEventListener('complete', end)
    // Browsers don't open a stream again that was refused, so the page does it in all cases.
    source.addEventListener('error', end)
    document.addEventListener('visibilitychange', end)
  })
}

async function untilVisible() {
  while (document.hidden)
    await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }))
}

function problemText({ code, message }, hasNumbers) {
  if (hasNumbers) return `The numbers may be old: ${message}`
  return code === 'NO_ANSWER'
    ? `${message} This page keeps trying.`
    : `The numbers can't be reached: ${message}`
}
