// Numbers that a page keeps live, and whether they may be old.

import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { newer } from '/client.js'
import { andFocus, client, html, isRefused, noteRefusal, useAccess, useIsLong } from './page.js'

/** The first event has all that is shown, the others what changed. Null instead of variables: nothing to watch yet. */
export function useLive(document, variables, show) {
  const { key } = useAccess()
  const [live, setLive] = useState({ state: 'connecting', hasNumbers: false, error: undefined })
  const stream = useRef()
  const latest = useRef()
  latest.current = show
  const text = JSON.stringify(variables)
  useEffect(() => {
    if (text === 'null') return
    // Keeps the first error: screen readers would announce each new text.
    stream.current = client.subscribe(document, JSON.parse(text), {
      onData(data) {
        latest.current(data)
        setLive({ state: 'open', hasNumbers: true, error: undefined })
      },
      onError(error) {
        noteRefusal(error)
        setLive((current) => ({ ...current, error: current.error ?? error }))
      },
      onState: (state) => setLive((current) => ({ ...current, state })),
    })
    return () => stream.current.stop()
  }, [document, text, key])
  return { ...live, retryNow: () => stream.current?.retryNow() }
}

/** The newest known states by name, and a function that takes states: answers may arrive out of order. */
export function useNewest() {
  return useReducer((known, states) => {
    const next = { ...known }
    // Null: the key is not for it.
    for (const state of states.filter(Boolean)) next[state.name] = newer(next[state.name], state)
    return next
  }, {})
}

/** Says that numbers are loading, or why they may be old, and lets a person retry now. */
export function Freshness({ live: { state, hasNumbers, error, retryNow } }) {
  const isLoading = useIsLong(!hasNumbers && !error)
  const canRetry = error && !isRefused(error) && state !== 'open'
  return html`
    <div class="freshness" tabindex="-1">
      <p class="progress" role="status">${isLoading && 'Loading the numbers…'}</p>
      <p class="problem" role="alert">${error && !isRefused(error) && staleText(error, hasNumbers)}</p>
      ${canRetry && html`<p class="waiting">${state !== 'ended' && 'Waiting to reconnect. '}<button class="link" onClick=${andFocus('.freshness', retryNow)}>Retry now</button></p>`}
    </div>`
}

function staleText({ code, message }, hasNumbers) {
  if (hasNumbers) return `The numbers may be old: ${message}`
  return code === 'NO_ANSWER' ? message : `The numbers can't be reached: ${message}`
}
