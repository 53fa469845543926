import { SEQUENCE, type Workload } from '../workloads.ts'

/** A GraphQL request as clients send it: the document stays the same, the names are variables. */
export interface Operation {
  query: string
  variables: Record<string, unknown>
}

/** One that changes the number of a name. */
export function changeOf({ kind }: Workload, name: string): Operation {
  if (kind === 'counter') {
    return { query: 'mutation($name: String!) { increment(name: $name) { value } }', variables: { name } }
  }
  return {
    query:
      'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }',
    variables: { name: SEQUENCE, group: name },
  }
}

/** One that reads many counters. */
export function readOf(names: readonly string[]): Operation {
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

/** An operation as the bytes of a request of HTTP/1.1, on a connection that stays open. */
export function bytesOf(operation: Operation, { host }: URL): Buffer {
  const body = JSON.stringify(operation)
  return Buffer.from(
    [
      'POST /graphql HTTP/1.1',
      `host: ${host}`,
      'accept: application/json',
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n'),
  )
}
