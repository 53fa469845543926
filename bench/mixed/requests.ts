// What clients of the mixed load send, with what they expect of each answer.
import { randomUUID } from 'node:crypto'
import { bytesOf, type Operation } from '../load/requests.ts'
import type { Tally } from './tally.ts'

/** A request, and what its answer must be. */
export interface MixedRequest {
  bytes: Buffer
  /** Under which the metrics count it; `none`: it is refused before the kind is known. */
  operation: 'query' | 'mutation' | 'none'
  /** Of its first error, or `OK`. */
  code: string
  /** Notes what was answered. Returns the next request of the same caller, if there must be one. */
  take?(data: Data): MixedRequest | undefined
}

/** As the requests below select it. */
type Data = Record<string, unknown>

/** How many counters are changed one by one, and in carts. */
const COUNTERS = 10_000
const CART_LINES = 10
/** The most that one request may change. */
const MAX_CHANGES = 1000
const READ_NAMES = 100
const BOARDS = ['MYBOARD', 'YOURBOARD']

export const BOARD_SEQUENCE = 'ticket'
export const INVOICES = 'invoice'
/** A counter that is at its limit. */
export const FULL = 'full'

/** What must be there before the first request. */
export const PREPARATION = `mutation {
  defineSequence(name: "${INVOICES}", definition: { gapless: true }) { id }
  defineCounter(name: "${FULL}", definition: { maxValue: 0 }) { id }
}`

/** What creates all counters, each at 0, which the load then only changes. */
export function creations(): Operation[] {
  const names = ['hot', ...Array.from({ length: COUNTERS }, (_, index) => nameOf(index))]
  const query = 'mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }'
  return Array.from({ length: Math.ceil(names.length / MAX_CHANGES) }, (_, page) => {
    const some = names.slice(page * MAX_CHANGES, (page + 1) * MAX_CHANGES)
    return { query, variables: { changes: some.map((name) => ({ name, delta: 0 })) } }
  })
}

/** Returns a function that returns a request at random. */
export function createMix(url: URL, tally: Tally): () => MixedRequest {
  const ask = (query: string, variables: Record<string, unknown> = {}) => bytesOf({ query, variables }, url)

  function changeOf(name: string, bytes: Buffer): MixedRequest {
    return {
      bytes,
      operation: 'mutation',
      code: 'OK',
      take: ({ increment }) => void tally.number(`counter ${name}`, valueIn(increment)),
    }
  }

  const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'
  const hot = () => changeOf('hot', ask(INCREMENT, { name: 'hot' }))

  function anyCounter(): MixedRequest {
    const name = anyName()
    return changeOf(name, ask(INCREMENT, { name }))
  }

  /** Its name and its key are in the text, so that each document is a new one. */
  function inText(): MixedRequest {
    const name = anyName()
    return changeOf(
      name,
      ask(`mutation { increment(name: "${name}", idempotencyKey: "${randomUUID()}") { value } }`),
    )
  }

  /** A call that is sent twice under one key. */
  function twice(): MixedRequest {
    const name = anyName()
    const query =
      'mutation($name: String!, $key: String!) { increment(name: $name, idempotencyKey: $key) { value } }'
    const first = changeOf(name, ask(query, { name, key: randomUUID() }))
    return {
      ...first,
      take(data) {
        first.take?.(data)
        const value = valueIn(data.increment)
        return {
          ...first,
          take({ increment }) {
            if (valueIn(increment) !== value)
              throw new Error(`A repeat returned ${valueIn(increment)}, not ${value}`)
            return undefined
          },
        }
      },
    }
  }

  function cart(): MixedRequest {
    const names = [...new Set(Array.from({ length: CART_LINES }, anyName))]
    const query = 'mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }'
    return {
      bytes: ask(query, { changes: names.map((name) => ({ name })) }),
      operation: 'mutation',
      code: 'OK',
      take({ incrementMany }) {
        for (const [index, name] of names.entries())
          tally.number(`counter ${name}`, valueIn((incrementMany as unknown[])[index]))
        return undefined
      },
    }
  }

  function ticket(): MixedRequest {
    const group = anyOf(BOARDS)
    const query =
      'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }'
    return {
      bytes: ask(query, { name: BOARD_SEQUENCE, group }),
      operation: 'mutation',
      code: 'OK',
      take: ({ nextInSequence }) => void tally.number(`group ${group}`, valueIn(nextInSequence)),
    }
  }

  /** A number of an invoice, four of five of which are confirmed. */
  function reservation(): MixedRequest {
    const isConfirmed = Math.random() < 0.8
    const field = isConfirmed ? 'confirmReservation' : 'releaseReservation'
    return {
      bytes: ask('mutation($name: String!) { reserveInSequence(name: $name) { id value } }', {
        name: INVOICES,
      }),
      operation: 'mutation',
      code: 'OK',
      take: ({ reserveInSequence }) => ({
        bytes: ask(`mutation($id: ID!) { ${field}(id: $id) { value state } }`, {
          id: (reserveInSequence as { id: string }).id,
        }),
        operation: 'mutation',
        code: 'OK',
        take: (data) => void (isConfirmed && tally.number(`confirmed ${INVOICES}`, valueIn(data[field]))),
      }),
    }
  }

  const query = (bytes: Buffer): MixedRequest => ({ bytes, operation: 'query', code: 'OK' })
  const reads = () =>
    query(
      ask(
        'query($names: [String!]!) { counters(names: $names) { name value thisDay: valueIn(period: DAY) } }',
        {
          names: [...new Set(Array.from({ length: READ_NAMES }, anyName))],
        },
      ),
    )
  const readInText = () => query(ask(`{ counter(name: "never ${randomUUID()}") { value } }`))
  const leaders = () =>
    query(ask('{ namespace { counters(orderBy: VALUE_DESC, first: 20) { nodes { name value } } } }'))
  const groups = () =>
    query(
      ask(`{ sequence(name: "${BOARD_SEQUENCE}") { groups { nodes { name lastValue nextFormatted } } } }`),
    )

  const refused: MixedRequest[] = [
    { bytes: ask('{'), operation: 'none', code: 'GRAPHQL_PARSE_FAILED' },
    { bytes: ask('{ nothing }'), operation: 'none', code: 'GRAPHQL_VALIDATION_FAILED' },
    {
      bytes: ask('mutation { reset(name: "hot", to: 1.5) { value } }'),
      operation: 'none',
      code: 'BAD_USER_INPUT',
    },
    { bytes: ask('{ counters(names: []) { value } }'), operation: 'query', code: 'BAD_USER_INPUT' },
    { bytes: ask(INCREMENT, { name: FULL }), operation: 'mutation', code: 'LIMIT_REACHED' },
    { bytes: ask(INCREMENT, { name: 5 }), operation: 'mutation', code: 'BAD_USER_INPUT' },
    {
      bytes: ask(INCREMENT, { name: 'n'.repeat(192) }),
      operation: 'mutation',
      code: 'BAD_USER_INPUT',
    },
  ]

  return byWeight([
    [20, hot],
    [20, anyCounter],
    [10, inText],
    [4, twice],
    [10, cart],
    [12, ticket],
    [4, reservation],
    [6, reads],
    [4, readInText],
    [3, leaders],
    [3, groups],
    [4, () => anyOf(refused)],
  ])
}

/** Returns a function that calls one of some, as often as their weights say. */
function byWeight<Value>(choices: readonly [weight: number, make: () => Value][]): () => Value {
  const makes = choices.flatMap(([weight, make]) => Array.from({ length: weight }, () => make))
  return () => anyOf(makes)()
}

function anyOf<Item>(items: readonly Item[]): Item {
  // There is one at each index below the length.
  return items[Math.floor(Math.random() * items.length)] as Item
}

function anyName(): string {
  return nameOf(Math.floor(Math.random() * COUNTERS))
}

function nameOf(index: number): string {
  return `counter-${index}`
}

function valueIn(change: unknown): number {
  const { value } = (change ?? {}) as { value?: unknown }
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new Error(`A change was answered with ${JSON.stringify(change)}`)
}
