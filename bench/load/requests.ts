import { randomUUID } from 'node:crypto'
import { PAGE_SIZE } from '../leaderboard.ts'
import { type Counting, SEQUENCE } from '../workloads.ts'

/** A GraphQL request as clients send it: the document stays the same, the names are variables. */
export interface Operation {
  query: string
  variables: Record<string, unknown>
}

/** One that changes the number of a name. */
export function changeOf({ kind, change, namespace }: Counting, name: string): Operation {
  if (namespace !== undefined) {
    return {
      query:
        'mutation($name: String!, $namespace: String!) { increment(name: $name, namespace: $namespace) { value } }',
      variables: { name, namespace },
    }
  }
  if (change === 'told') {
    return {
      query: 'mutation($name: String!) { increment(name: $name) { value valueIn(period: MONTH) } }',
      variables: { name },
    }
  }
  if (kind === 'counter') {
    return { query: 'mutation($name: String!) { increment(name: $name) { value } }', variables: { name } }
  }
  return {
    query:
      'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }',
    variables: { name: SEQUENCE, group: name },
  }
}

/** One that changes a counter under an idempotency key. */
export function keyedChangeOf(name: string, key: string): Operation {
  return {
    query:
      'mutation($name: String!, $key: String!) { increment(name: $name, idempotencyKey: $key) { value } }',
    variables: { name, key },
  }
}

/** One that changes many counters. */
export function changeAllOf(names: readonly string[]): Operation {
  return {
    query: 'mutation($changes: [CounterDeltaInput!]!) { incrementMany(changes: $changes) { value } }',
    variables: { changes: names.map((name) => ({ name, delta: 1 })) },
  }
}

/** One that reads many counters. */
export function readOf(names: readonly string[], namespace?: string): Operation {
  if (namespace !== undefined) {
    return {
      query:
        'query($names: [String!]!, $namespace: String!) { counters(names: $names, namespace: $namespace) { value } }',
      variables: { names, namespace },
    }
  }
  return { query: 'query($names: [String!]!) { counters(names: $names) { value } }', variables: { names } }
}

/** One that reads the last number of a group. */
export function lastOf(group: string): Operation {
  return {
    query:
      'query($name: String!, $group: String!) { sequence(name: $name) { group(name: $group) { lastValue } } }',
    variables: { name: SEQUENCE, group },
  }
}

/** One that creates some API keys. */
export function createApiKeysOf(count: number): Operation {
  const fields = Array.from(
    { length: count },
    (_, index) => `k${index}: createApiKey(label: "bench", grants: [{ scopes: [ADD] }]) { secret }`,
  )
  return { query: `mutation { ${fields.join(' ')} }`, variables: {} }
}

/** One that reads a page of a leaderboard: the first, or what comes after a cursor. */
export function pageOf(namespace: string, after?: string): Operation {
  return {
    query: `query($namespace: String!, $after: String) {
      namespace(name: $namespace) {
        counters(orderBy: VALUE_DESC, first: ${PAGE_SIZE}, after: $after) { nodes { name value } }
      }
    }`,
    variables: { namespace, after },
  }
}

/** An operation as the bytes of a request of HTTP/1.1, on a connection that stays open. */
export function bytesOf(operation: Operation, { host }: URL, apiKey?: string): Buffer {
  const body = JSON.stringify(operation)
  return Buffer.from(
    [
      'POST /graphql HTTP/1.1',
      `host: ${host}`,
      'accept: application/json',
      'content-type: application/json',
      ...(apiKey === undefined ? [] : [`authorization: Bearer ${apiKey}`]),
      `content-length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n'),
  )
}

/** Makes the bytes of requests that differ in one variable only, each time a new UUID. */
export function bytesWithUuid(operationOf: (uuid: string) => Operation, url: URL): () => Buffer {
  const blank = randomUUID()
  const [head, tail] = bytesOf(operationOf(blank), url).toString('latin1').split(blank)
  return () => Buffer.from(`${head}${randomUUID()}${tail}`, 'latin1')
}
