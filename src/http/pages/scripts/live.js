// Numbers that a page keeps live, and whether they may be old.

import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { andFocus, client, html, isRefused, noteRefusal, useAccess, useIsLong } from './page.js'

/**
 * The states of counters and other things by their name or id, kept newest by a subscription, and `show` for those that
 * come otherwise: the client returns none that is older than one before. Without variables, there is nothing to watch yet.
 */
export function useLive(document, variables, { by = 'name', onEvent } = {}) {
  const { key } = useAccess()
  const [live, setLive] = useState({ state: 'connecting', hasNumbers: false, error: undefined })
  const [states, show] = useReducer((known, changed) => {
    const next = { ...known }
    // Null: the key is not for it, or only reading it failed.
    for (const state of changed.filter(Boolean)) next[state[by]] = { ...next[state[by]], ...state }
    return next
  }, {})
  const stream = useRef()
  const latest = useRef()
  latest.current = onEvent
  const text = JSON.stringify(variables)
  useEffect(() => {
    if (!text) return
    const leaving = new AbortController()
    function take(data, news) {
      const [changed] = Object.values(data)
      latest.current?.(changed)
      show(changed)
      setLive((current) => ({ ...current, hasNumbers: true, ...news }))
    }
    // The first event of a WebSocket takes three round trips; what has an id was read before. The subscription says what fails.
    const query = document.replace('subscription', 'query')
    if (by === 'name') client.query(query, JSON.parse(text), leaving).then(take, () => {})
    // Keeps the first error: screen readers would announce each new text.
    stream.current = client.subscribe(document, JSON.parse(text), {
      // The first event has all that is shown, the others what changed.
      onData: (data) => take(data, { state: 'open', error: undefined }),
      onError(error) {
        noteRefusal(error)
        setLive((current) => ({ ...current, error: current.error ?? error }))
      },
      onState: (state) => setLive((current) => ({ ...current, state })),
    })
    return () => {
      leaving.abort()
      stream.current.stop()
    }
  }, [document, text, key])
  return { states, show, live: { ...live, retryNow: () => stream.current?.retryNow() } }
}

/** Says that numbers are loading, or why they may be old, and lets a person retry now. */
export function Freshness({ live: { state, hasNumbers, error, retryNow } }) {
  const isLoading = useIsLong(!hasNumbers && !error)
  const canRetry = error && !isRefused(error)
  // Beside the field for a key stands why there are none.
  const text = (canRetry || hasNumbers) && error ? staleText(error, hasNumbers) : ''
  const retry = html`<button class="link" onClick=${andFocus('.freshness', retryNow)}>Retry now</button>`
  return html`
    <div class="freshness line" tabindex="-1">
      <p class="muted" role="status">${isLoading && 'Loading the numbers…'}</p>
      <p class="problem" role="alert">${text}</p>
      ${canRetry && state !== 'open' && html`<p>${state !== 'ended' && 'Waiting to reconnect. '}${retry}</p>`}
    </div>`
}

function staleText({ code, message }, hasNumbers) {
  // The field for a key says why.
  if (hasNumbers)
    return code === 'UNAUTHENTICATED' ? 'The numbers may be old.' : `The numbers may be old: ${message}`
  return code === 'NO_ANSWER' ? message : `The numbers can't be reached: ${message}`
}
