// Keeps what a view shows live, by one subscription.
//
// States: `open` (a stream is open or being opened), `waiting` (for its next attempt), `paused` (the page is hidden, or
// there is nothing to watch) and `ended` (the view was left, or the key is refused: another key shows the view anew).

import { setText } from '../messages.js'
import { isRefusal, reported } from './request.js'
import { errorOf, resultsOf } from './stream.js'

/** Pauses before a stream is opened again, in milliseconds: doubled each time. */
const SHORTEST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 15_000

const problem = document.querySelector('#freshness .problem')

/**
 * Calls `show` with each object that a subscription to `nodes` returns, first all of them, then what changed, until
 * `signal` aborts. `query` has the variable `ids`. Returns a function that replaces the variables.
 */
export function keepLive(query, variables, show, signal) {
  let state = 'paused'
  let stream
  let timer
  let pauseMs = SHORTEST_PAUSE_MS
  /** Whether the present stream has sent any. */
  let hasNumbers = false

  function restart() {
    stream?.abort()
    clearTimeout(timer)
    if (state === 'ended') return
    state = document.hidden || variables.ids.length === 0 ? 'paused' : 'open'
    if (state === 'open') read()
  }

  async function read() {
    const own = new AbortController()
    stream = own
    hasNumbers = false
    try {
      await reported(readAll(own.signal))
    } catch (error) {
      if (own.signal.aborted) return
      showProblem(error)
      if (isRefusal(error)) return end()
    }
    if (own.signal.aborted) return
    state = 'waiting'
    timer = setTimeout(restart, pauseMs * (0.5 + Math.random()))
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
  }

  /** Shows why the numbers may be old. A stream that breaks is opened again first: the server may have been restarted. */
  function showProblem(error) {
    if (hasNumbers && !isRefusal(error)) return
    // Keeps the first reason, as screen readers would announce each new text; but a refusal is final.
    if (problem.textContent === '' || isRefusal(error))
      setText(problem, `The numbers may be old: ${error.message}`)
  }

  async function readAll(signal) {
    for await (const { data, errors } of resultsOf(query, variables, signal)) {
      if (signal.aborted) return
      if (!data?.nodes) throw errorOf(errors)
      hasNumbers = true
      pauseMs = SHORTEST_PAUSE_MS
      setText(problem, '')
      for (const node of data.nodes) if (node) show(node)
    }
  }

  function end() {
    state = 'ended'
    stream?.abort()
    clearTimeout(timer)
  }

  setText(problem, '')
  document.addEventListener('visibilitychange', restart, { signal })
  signal.addEventListener('abort', end)
  restart()

  return (changed) => {
    variables = { ...variables, ...changed }
    restart()
  }
}
