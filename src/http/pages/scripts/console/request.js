// Requests to the API with the key of this tab.

import * as api from '../api.js'

/** As in GraphiQL: for this tab only. */
const STORED = 'nth-key'

/** Codes for which another key may help. */
const REFUSALS = ['UNAUTHENTICATED', 'FORBIDDEN']

let onRefusal = () => {}

/** Calls `listener` with each error for which another key may help. */
export function listenForRefusals(listener) {
  onRefusal = listener
}

export function readKey() {
  return sessionStorage.getItem(STORED) ?? ''
}

/** An empty key is none. */
export function storeKey(key) {
  if (key === '') sessionStorage.removeItem(STORED)
  else sessionStorage.setItem(STORED, key)
}

export function keyHeaders() {
  const key = readKey()
  return key === '' ? {} : { authorization: `Bearer ${key}` }
}

export function isRefusal({ code }) {
  return REFUSALS.includes(code)
}

/** Sends an operation to the API and returns its data. */
export async function ask(query, variables) {
  return reported(api.ask(query, variables, keyHeaders()))
}

/** Sends a mutation of one field. With an idempotency key it is retried when its answer is lost, and applied once. */
export async function change(text, takesKey) {
  if (!takesKey) return ask(text)
  return reported(api.askOnce(text, undefined, api.newKey(), keyHeaders()))
}

/** Passes an error on to whom it may concern, and throws it again. */
export async function reported(promise) {
  try {
    return await promise
  } catch (error) {
    if (isRefusal(error)) onRefusal(error)
    throw error
  }
}
