// Subscriptions by `fetch`, as a browser's EventSource can't send a key: https://github.com/enisdenjo/graphql-sse

import { keyHeaders } from './request.js'

/** The server sends a comment every 12 s; after three of them are missing, the connection is taken for dead. */
const SILENCE_MS = 45_000

/** Yields the results of a subscription until it ends. Throws an error with a code if it is refused or breaks. */
export async function* resultsOf(query, variables, signal) {
  const silence = new AbortController()
  let timer
  const listen = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(), SILENCE_MS)
  }
  try {
    listen()
    const response = await open(query, variables, AbortSignal.any([signal, silence.signal]))
    for await (const block of blocksOf(response, listen)) {
      const [, event, data] = /^event: (\w+)\ndata:(.*)$/.exec(block) ?? []
      if (event === 'complete') return
      if (event === 'next') yield JSON.parse(data)
    }
  } catch (cause) {
    if (cause.code && !(cause instanceof DOMException)) throw cause
    throw Object.assign(new Error("The server can't be reached.", { cause }), { code: 'NO_ANSWER' })
  } finally {
    clearTimeout(timer)
  }
}

async function open(query, variables, signal) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...keyHeaders() },
    body: JSON.stringify({ query, variables }),
    signal,
  })
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) return response
  const { errors } = await response.json()
  throw errorOf(errors)
}

/** The first of a result's errors, to be thrown. */
export function errorOf([{ message, extensions }]) {
  return Object.assign(new Error(message), extensions)
}

/** What is between empty lines. */
async function* blocksOf(response, onChunk) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    onChunk()
    const blocks = (text + value).split('\n\n')
    text = blocks.pop()
    yield* blocks
  }
}
