/** A hook for React: a live counter, to which a click adds exactly one. */
import { createClient, type NthClient, type NthError, newer } from 'nth-counters/client'
import { useMemo, useSyncExternalStore } from 'react'

export interface CountOptions {
  /** The name of the counter. */
  name: string
  /** Default: `default`. */
  namespace?: string | undefined
  /** The period of `valueIn`. */
  period?: 'HOUR' | 'DAY' | 'WEEK' | 'MONTH' | 'YEAR' | undefined
  /** Default: one client of `/graphql` for all components. Create another one outside of components. */
  client?: NthClient | undefined
  /** `value` before the first answer, such as the number that a server has rendered. */
  initial?: number | undefined
}

/**
 * Where a counter is.
 *
 *   loading    no state has arrived yet
 *   live       `value` follows the server
 *   waiting    its connection is being made again, unless `error` is not retryable
 *   counting   an increment was sent, and is repeated until its outcome is known
 *   doubtful   an increment may or may not have been counted: another one repeats it, and gets the same number
 */
export type CountStatus = 'loading' | 'live' | 'waiting' | 'counting' | 'doubtful'

export interface Count {
  /** The current value, one more at once while an increment is counted. Null before the first answer. */
  readonly value: number | null
  /** The total of the current period. Null without a period, if it is not tracked, and before the first answer. */
  readonly valueIn: number | null
  /** The number that the server gave this component's last increment. Null before the first. */
  readonly mine: number | null
  readonly status: CountStatus
  /** Why the last increment has no result, or why the counter can't be read. */
  readonly error: NthError | null
  /**
   * Returns the number of this increment, or null if there is none: see `error`. It never rejects. While one is counted,
   * it returns the same promise.
   */
  readonly increment: () => Promise<number | null>
}

interface Counter {
  id: string
  revision: number
  value: number
  valueIn?: number | null
}

interface Increment {
  value: number
  /** Null if it could not be read. */
  counter: Counter | null
}

/** An increment that has no result yet. */
type Call =
  | { is: 'counting'; answer: Promise<Increment> }
  /** Without an error, it was begun before the page was reloaded. */
  | { is: 'doubtful'; error: NthError | null }

interface State {
  connection: 'loading' | 'live' | 'waiting'
  counter: Counter | null
  /** While this component's increment is counted: `value` is shown as at least this. */
  expected: number | null
  mine: number | null
  /** Why this component's last increment was not counted. */
  failure: NthError | null
  readError: NthError | null
}

let shared: NthClient | undefined

function sharedClient(): NthClient {
  shared ??= createClient()
  return shared
}

/** Returns a counter, which follows the server while the component is mounted. */
export function useCount({ name, namespace = 'default', period, client, initial }: CountOptions): Count {
  const count = useMemo(
    () => new LiveCount(client ?? sharedClient(), { name, namespace }, period, initial ?? null),
    [client, name, namespace, period],
  )
  return useSyncExternalStore(count.subscribe, count.current, count.current)
}

/**
 * The increments of a client's pages that have no result yet, by their names. Components with the same counter share them:
 * an increment of which one of them has the result must not be doubtful to another, which would count again.
 */
class Calls {
  readonly listeners = new Set<(name: string) => void>()
  readonly #client: NthClient
  readonly #calls = new Map<string, Call>()

  constructor(client: NthClient) {
    this.#client = client
  }

  get(name: string): Call | undefined {
    return this.#calls.get(name)
  }

  /** Finds what was begun before the page was reloaded. */
  recall(name: string): void {
    if (!this.#calls.has(name) && this.#client.remembered(name))
      this.#set(name, { is: 'doubtful', error: null })
  }

  /** Counts, or repeats what has no result yet. */
  async send(name: string, document: string, variables: object): Promise<Increment> {
    const before = this.#calls.get(name)
    if (before?.is === 'counting') return before.answer
    const answer = this.#client
      .mutate<{ increment: Increment }>(document, variables, { remember: name })
      .then(({ increment }) => increment)
    this.#set(name, { is: 'counting', answer })
    try {
      await answer
      this.#set(name, undefined)
    } catch (cause) {
      // The client throws nothing else.
      const error = cause as NthError
      // While its key is kept, an error such as UNAVAILABLE says nothing about the earlier attempt.
      const isDoubtful = error.isOutcomeUnknown || (before && this.#client.remembered(name))
      this.#set(name, isDoubtful ? { is: 'doubtful', error } : undefined)
    }
    return answer
  }

  #set(name: string, call: Call | undefined): void {
    if (call) this.#calls.set(name, call)
    else this.#calls.delete(name)
    for (const listen of this.listeners) listen(name)
  }
}

const callsByClient = new WeakMap<NthClient, Calls>()

function callsOf(client: NthClient): Calls {
  const calls = callsByClient.get(client) ?? new Calls(client)
  callsByClient.set(client, calls)
  return calls
}

/** A counter of one component. What arrives late stays with it, also if the component shows another one by then. */
class LiveCount {
  readonly #client: NthClient
  readonly #calls: Calls
  readonly #variables: { name: string; namespace: string }
  readonly #selection: string
  readonly #initial: number | null
  /** The name of its increment, under which the client keeps the idempotency key. */
  readonly #action: string
  #state: State = {
    connection: 'loading',
    counter: null,
    expected: null,
    mine: null,
    failure: null,
    readError: null,
  }
  #count: Count
  #answer: Promise<number | null> | undefined
  #onChange = () => {}

  constructor(
    client: NthClient,
    variables: { name: string; namespace: string },
    period: string | undefined,
    initial: number | null,
  ) {
    this.#client = client
    this.#calls = callsOf(client)
    this.#variables = variables
    this.#selection = `id revision value${period ? ` valueIn(period: ${period})` : ''}`
    this.#initial = initial
    this.#action = `increment ${JSON.stringify([variables.namespace, variables.name])}`
    this.#count = this.#shown()
  }

  readonly current = (): Count => this.#count

  readonly subscribe = (onChange: () => void): (() => void) => {
    this.#onChange = onChange
    const listen = (name: string) => void (name === this.#action && this.#set({}))
    this.#calls.listeners.add(listen)
    this.#set({ connection: 'loading' })
    // Not before, as what a server has rendered can't know it.
    this.#calls.recall(this.#action)
    const document = `subscription UseCount($name: String!, $namespace: String!) {
      counters(names: [$name], namespace: $namespace) { ${this.#selection} }
    }`
    const { stop } = this.#client.subscribe<{ counters: (Counter | null)[] | null }>(
      document,
      this.#variables,
      {
        onData: ({ counters }) =>
          this.#set({ counter: newer(this.#state.counter, counters?.[0] ?? null), readError: null }),
        onError: (readError) => this.#set({ readError }),
        onState: (state) => {
          if (state === 'open') this.#set({ connection: 'live' })
          else if (state !== 'connecting' || this.#state.connection === 'live')
            this.#set({ connection: 'waiting' })
        },
      },
    )
    return () => {
      this.#onChange = () => {}
      this.#calls.listeners.delete(listen)
      stop()
    }
  }

  readonly increment = (): Promise<number | null> => {
    this.#answer ??= this.#increment()
    return this.#answer
  }

  async #increment(): Promise<number | null> {
    const { value } = this.#count
    // What has no result yet may be in the value already.
    const isNew = !this.#calls.get(this.#action)
    this.#set({ expected: isNew && value !== null ? value + 1 : null, failure: null })
    const document = `mutation UseCount($name: String!, $namespace: String!) {
      increment(name: $name, namespace: $namespace) { value counter { ${this.#selection} } }
    }`
    let mine: number | null = null
    try {
      const increment = await this.#calls.send(this.#action, document, this.#variables)
      mine = increment.value
      this.#set({ counter: newer(this.#state.counter, increment.counter), expected: null, mine })
    } catch (cause) {
      // The client throws nothing else. Of a doubtful call, all components with this counter have the error.
      const failure = this.#calls.get(this.#action) ? null : (cause as NthError)
      this.#set({ expected: null, failure })
    }
    this.#answer = undefined
    return mine
  }

  #set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change }
    this.#count = this.#shown()
    this.#onChange()
  }

  #shown(): Count {
    const { connection, counter, expected, mine, failure, readError } = this.#state
    const call = this.#calls.get(this.#action)
    const value = counter?.value ?? this.#initial
    return {
      value: expected === null ? value : Math.max(value ?? expected, expected),
      valueIn: counter?.valueIn ?? null,
      mine,
      status: call?.is ?? connection,
      error: (call?.is === 'doubtful' && call.error) || failure || readError,
      increment: this.increment,
    }
  }
}
