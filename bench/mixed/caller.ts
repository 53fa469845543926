import type { Answer } from '../load/answers.ts'
import { openConnection } from '../load/connection.ts'
import type { MixedRequest } from './requests.ts'
import type { Tally } from './tally.ts'

export interface Load {
  url: URL
  tally: Tally
  /** Returns the place of the worker that serves a connection from this port. */
  findWorker(clientPort: number): Promise<number>
  /** Nothing new is begun then. */
  isOver(): boolean
  onAnswer(): void
}

/** Requests on one connection, at most. Then the caller opens another one. */
const MOST_REQUESTS = 1000

/** Sends one request after another, each as soon as the last one is answered. Finishes all that it began. */
export async function runCaller(load: Load, pick: () => MixedRequest): Promise<void> {
  const { url, tally, findWorker, isOver } = load
  while (!isOver()) {
    const { ask, port, close } = openAsking(url)
    const answers = new Map<string, number>()
    let worker: Promise<number> | undefined
    for (let left = Math.random() * MOST_REQUESTS; left > 0 && !isOver(); left--) {
      let request: MixedRequest | undefined = pick()
      while (request) {
        const { body } = await ask(request.bytes)
        const { data, code } = read(body)
        if (code !== request.code) throw new Error(`A request was answered with ${body}, not ${request.code}`)
        const kind = `${request.operation} ${code}`
        answers.set(kind, (answers.get(kind) ?? 0) + 1)
        load.onAnswer()
        if (!worker) {
          worker = findWorker(port())
          // Awaited below.
          worker.catch(() => undefined)
        }
        request = request.take?.(data)
      }
    }
    if (worker) tally.answers(await worker, answers)
    close()
  }
}

/** A connection whose answers are awaited one by one. */
function openAsking(url: URL) {
  let resolve: (answer: Answer) => void = () => undefined
  let reject: (error: unknown) => void = () => undefined
  const { send, port, close } = openConnection(
    url,
    (answer) => resolve(answer),
    (error) => reject(error),
  )
  return {
    port,
    close,

    ask: (bytes: Buffer) =>
      new Promise<Answer>((onAnswer, onFault) => {
        resolve = onAnswer
        reject = onFault
        send(bytes)
      }),
  }
}

function read(body: string) {
  const { data, errors } = JSON.parse(body)
  return { data, code: errors ? String(errors[0]?.extensions?.code) : 'OK' }
}
