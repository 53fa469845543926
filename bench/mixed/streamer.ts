import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Load } from './caller.ts'

const QUERY = 'subscription($names: [String!]!) { counters(names: $names) { name value revision } }'
const MOST_NAMES = 50
const MOST_MS = 5000

/** Opens one subscription after another, each for some seconds on a connection of its own. */
export async function runStreamer({ url, tally, findWorker, isOver, onAnswer }: Load): Promise<void> {
  while (!isOver()) {
    const names = [
      'hot',
      ...Array.from({ length: Math.random() * MOST_NAMES }, (_, index) => `counter-${index}`),
    ]
    const parameters = new URLSearchParams({ query: QUERY, variables: JSON.stringify({ names }) })
    const agent = new Agent()
    const request = get(new URL(`/graphql?${parameters}`, url), {
      agent,
      headers: { accept: 'text/event-stream' },
    })
    // The event has one argument.
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    if (response.statusCode !== 200)
      throw new Error(`A subscription was refused with ${response.statusCode}.`)
    const { localPort = 0 } = response.socket
    const { first, broken } = readEvents(response)
    await Promise.race([first, broken])
    onAnswer()
    const worker = await findWorker(localPort)
    await Promise.race([pause(Math.random() * MOST_MS), broken])
    tally.answers(worker, new Map([['subscription OK', 1]]))
    request.destroy()
  }
}

/** `first` resolves at the first event; `broken` rejects when the stream ends. */
function readEvents(response: IncomingMessage): { first: Promise<void>; broken: Promise<never> } {
  const first = new Promise<void>((resolve) => response.on('data', () => resolve()))
  const broken = new Promise<never>((_, reject) => {
    response.on('end', () => reject(new Error('Nth ended a subscription.')))
    response.on('error', reject)
  })
  // It also ends when it is closed here.
  broken.catch(() => undefined)
  return { first, broken }
}
