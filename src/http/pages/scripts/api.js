// Requests to the API: queries, and mutations that are applied exactly once.

/** Timeout of a request, in milliseconds. The server answers within 10 s, if only with an error. */
const ANSWER_MS = 12_000

/** How long a mutation is retried, in milliseconds. */
const REPEAT_MS = 15_000

/** Sends an operation to the API and returns its data. Errors carry the API's `code`, or NO_ANSWER. */
export async function ask(query, variables, headers = {}) {
  const { data, errors } = await send(JSON.stringify({ query, variables }), headers)
  if (errors) throw Object.assign(new Error(errors[0].message), errors[0].extensions, { data })
  return data
}

async function send(body, headers) {
  try {
    const response = await fetch('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    return await response.json()
  } catch (cause) {
    const error = new Error("The server can't be reached.", { cause })
    throw Object.assign(error, { code: 'NO_ANSWER', retryable: true })
  }
}

/** A new idempotency key. */
export function newKey() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}

/**
 * Sends a mutation of one field, and retries it when the answer is lost: with the same key it is applied once. Null: it
 * takes no key, and repeating it changes nothing.
 */
export async function askOnce(query, variables, key = newKey(), others = {}) {
  const headers = key === null ? others : { ...others, 'Idempotency-Key': key }
  const end = performance.now() + REPEAT_MS
  /** The first error that left open whether it was applied. A later UNAVAILABLE says nothing about that attempt. */
  let doubt
  for (let waitMs = 250; ; waitMs *= 2) {
    try {
      return await ask(query, variables, headers)
    } catch (error) {
      // Only a read below the field failed; the change itself was made.
      if (Object.values(error.data ?? {})[0]) return error.data
      const pauseMs = Math.max(waitMs, error.retryAfterMs ?? 0)
      if (!error.retryable) throw error
      if (isInDoubt(error)) doubt ??= error
      if (performance.now() + pauseMs > end) throw doubt ?? error
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}

/** Whether an error leaves open if the mutation was applied. */
export function isInDoubt({ code }) {
  return code === 'NO_ANSWER' || code === 'OUTCOME_UNKNOWN'
}
