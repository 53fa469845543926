// What all pages share: asking the API, once for each thing to do, and keeping fresh what they show.

/** Sends an operation to the API and returns its data. */
export async function ask(query, variables, headers = {}) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = await response.json()
  if (errors) throw Object.assign(new Error(errors[0].message), errors[0].extensions)
  return data
}

/** A text that stands for one thing to do. */
export function newKey() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-')
}

/**
 * Sends a mutation of one field. The key says what is to be done: so it can be sent again when an answer was lost, and
 * is still done once. Null: it is done once anyhow.
 */
export async function askOnce(query, variables, key = newKey()) {
  const headers = key === null ? {} : { 'Idempotency-Key': key }
  for (let waitMs = 250; ; waitMs *= 2) {
    try {
      return await ask(query, variables, headers)
    } catch (error) {
      // Without a code there was no answer at all.
      const mayRepeat = error.retryable || !error.code
      if (!mayRepeat || waitMs > 4000) throw error
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
}

/** Keeps what a page shows fresh while somebody looks at it. */
export function keepFresh(refresh) {
  const again = async () => {
    if (!document.hidden) await refresh()
    setTimeout(again, 2000)
  }
  document.addEventListener('visibilitychange', () => document.hidden || refresh())
  again()
}
