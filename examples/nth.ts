import { createClient } from 'nth-counters/client'

export const url: string = import.meta.env.VITE_NTH_URL ?? 'http://127.0.0.1:4000/graphql'

export const nth = createClient({ url })
