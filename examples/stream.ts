import { createClient } from 'graphql-sse'

export const url: string = import.meta.env.VITE_NTH_URL ?? 'http://127.0.0.1:4000/graphql'

/** Subscriptions over server-sent events. When the connection breaks, it is opened again after a second, for ever. */
export const stream = createClient({
  url,
  retryAttempts: Number.POSITIVE_INFINITY,
  retry: () => new Promise((resolve) => setTimeout(resolve, 1000)),
})
