/** An error as it arrives. */
export interface ReceivedError {
  message: string
  path?: (string | number)[]
  locations?: { line: number; column: number }[]
  extensions: { code: string; [detail: string]: unknown }
}

export interface Answer {
  // The query of a test is the type of its result.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  data: any
  errors?: ReceivedError[]
  extensions?: object
}

export interface Client {
  url: string
  /** Sends an operation, and returns whatever the server answers. */
  send(query: string, variables?: Record<string, unknown>): Promise<Answer>
  /** Sends an operation that must succeed, and returns its data. */
  ask(query: string, variables?: Record<string, unknown>): Promise<Answer['data']>
  /** Sends an operation that must fail, and returns its first error. */
  refusal(query: string, variables?: Record<string, unknown>): Promise<ReceivedError['extensions']>
  /** Sends a body to the endpoint as it is. */
  post(
    body: string | Uint8Array<ArrayBuffer>,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: Answer }>
}

export function clientOf(url: string): Client {
  async function post(body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    const text = await response.text()
    return { status: response.status, body: JSON.parse(text) as Answer }
  }

  async function send(query: string, variables?: Record<string, unknown>): Promise<Answer> {
    return (await post(JSON.stringify({ query, variables }))).body
  }

  return {
    url,
    post,
    send,

    ...answersOf(send),
  }
}

/** What must succeed, and what must fail, of what `send` sends. */
export function answersOf(
  send: (query: string, variables?: Record<string, unknown>) => Promise<Answer>,
): Pick<Client, 'ask' | 'refusal'> {
  return {
    async ask(query, variables) {
      const { data, errors } = await send(query, variables)
      if (errors) throw new Error(`Refused: ${JSON.stringify(errors)}`)
      return data
    },

    async refusal(query, variables) {
      const answer = await send(query, variables)
      const [error] = answer.errors ?? []
      if (!error) throw new Error(`Not refused: ${JSON.stringify(answer)}`)
      return error.extensions
    },
  }
}

/** Runs `work` for each index from 0 by `callers` at a time, as so many callers would. */
export async function inParallel<T>(
  callers: number,
  times: number,
  work: (index: number) => Promise<T>,
): Promise<T[]> {
  const results: T[] = []
  let next = 0
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (next < times) {
        const index = next++
        results[index] = await work(index)
      }
    }),
  )
  return results
}

/** The numbers from 1 to `last`. */
export function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1)
}

export function sorted(numbers: number[]): number[] {
  return numbers.toSorted((a, b) => a - b)
}
