import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { onTestFinished } from 'vitest'
import { soon } from '../soon.ts'
import type { Answer } from './client.ts'

interface SubscribeOptions {
  variables?: object
  headers?: Record<string, string>
  method?: 'GET' | 'POST'
  /** Instead of one with the query and its variables. */
  body?: string
}

/** What a stream sends: a result, its end, or the end of its connection without one. */
export type Sent = Answer | 'complete' | 'broken'

/** A subscription as a client sees it, closed when the test has finished. */
export async function subscribe(
  url: string,
  query: string,
  { variables, headers = {}, method = 'GET', body }: SubscribeOptions = {},
) {
  const accept = { accept: 'text/event-stream', ...headers }
  const parameters = new URLSearchParams({
    query,
    ...(variables && { variables: JSON.stringify(variables) }),
  })
  const address = `${url}/graphql${method === 'GET' ? `?${parameters}` : ''}`
  const type: Record<string, string> = method === 'POST' ? { 'content-type': 'application/json' } : {}
  const sent = request(address, { method, headers: { ...type, ...accept }, agent: false })
  sent.end(method === 'POST' ? (body ?? JSON.stringify({ query, variables })) : undefined)
  onTestFinished(() => void sent.destroy())
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const events: Sent[] = []
  const comments: string[] = []
  let wake: () => void = () => undefined
  let text = ''

  function take(block: string): void {
    const [, event, data = ''] = /^event: (\w+)\ndata:(.*)$/.exec(block) ?? []
    if (event === 'next') events.push(JSON.parse(data))
    else if (event === 'complete') events.push('complete')
    else comments.push(block)
  }

  response.setEncoding('utf8')
  response.on('data', (chunk) => {
    text += chunk
    if (response.statusCode !== 200) return
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) take(block)
    wake()
  })
  sent.on('error', () => undefined)
  const closed = new Promise<void>((resolve) => response.on('close', resolve))
  void closed.then(() => {
    if (events.at(-1) !== 'complete') events.push('broken')
    wake()
  })

  /** The next thing that it sends. */
  async function next(): Promise<Sent> {
    while (events.length === 0) {
      await soon(
        'an event',
        new Promise<void>((resolve) => {
          wake = resolve
        }),
      )
    }
    return events.shift() ?? 'broken'
  }

  return {
    status: response.statusCode,
    headers: response.headers,
    response,
    comments,
    next,

    /** The data of the next event, which must be a result without errors. */
    async data(): Promise<Answer['data']> {
      const event = await next()
      if (typeof event === 'string' || event.errors) throw new Error(`No data: ${JSON.stringify(event)}`)
      return event.data
    },

    /** The results until one satisfies a condition. */
    async until(isLast: (data: Answer['data']) => boolean): Promise<Answer['data'][]> {
      const results: Answer['data'][] = []
      while (results.length === 0 || !isLast(results.at(-1))) results.push(await this.data())
      return results
    },

    /** What arrived that is not an event: the body of a refusal. */
    async body(): Promise<Answer> {
      await closed
      return JSON.parse(text)
    },

    close: () => sent.destroy(),
  }
}
