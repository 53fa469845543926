import { createClient, NthError } from 'nth-counters/client'

export const url: string = import.meta.env.VITE_NTH_URL ?? 'http://127.0.0.1:4000/graphql'

export const nth = createClient({ url })

/** What a page says of a purchase that has no result. */
export function reasonOf(error: Error): string {
  const isUnknown = error instanceof NthError && error.isOutcomeUnknown
  return isUnknown ? 'It may or may not have been bought. Try again.' : error.message
}
