/** Accept headers: the usual ones, from the eighth on others. */
export const ACCEPTS = [
  undefined,
  '*/*',
  'application/json',
  'application/json, text/plain, */*',
  'application/graphql-response+json',
  'application/graphql-response+json, application/json',
  'application/graphql-response+json,application/json;q=0.9',
  'application/graphql-response+json; charset=utf-8, application/json; charset=utf-8',
  'text/event-stream',
  'multipart/mixed',
  'text/html',
  'application/*',
  '',
]

export const INCREMENT = 'mutation($name: String!) { increment(name: $name) { value } }'

/** Requests of every kind, as JSON. */
export const bodies: unknown[] = [
  // Good ones.
  { query: '{ __typename }' },
  { query: '{ counter(name: "a") { id namespace { name } name value createdAt updatedAt } }' },
  {
    query: 'query Q($n: [String!]!) { counters(names: $n) { ...F } } fragment F on Counter { name value }',
    variables: { n: ['a', 'b'] },
  },
  { query: INCREMENT, variables: { name: 'c' } },
  { query: 'query A { a: __typename } query B { b: __typename }', operationName: 'B' },
  { query: '{ __schema { queryType { name } } }' },
  {
    query: 'query($s: Boolean!) { __typename @skip(if: $s) namespace { name @include(if: $s) } }',
    variables: { s: true },
  },
  { query: '{ node(id: "Q291bnRlcjpkZWZhdWx0CmE") { id ... on Counter { value } } }' },
  { query: '{ __typename }', variables: null, operationName: null, extensions: null, extra: null },
  { query: '{ __typename }', extensions: { some: 'thing' } },
  // Refused by the core, partly or wholly.
  { query: 'mutation { increment(name: "") { value } }' },
  {
    query:
      'mutation { a: incrementBy(name: "c", delta: 1) { value } b: incrementBy(name: "m", delta: 9007199254740991) { value } c: incrementBy(name: "m", delta: 1) { value counter { value } } }',
  },
  { query: '{ counters(names: []) { value } counter(name: "a") { value } }' },
  { query: '{ node(id: "x") { id } }' },
  { query: '{ namespace { counters(first: 1, last: 1) { nodes { name } } } }' },
  // Variables that are wrong, missing or too many.
  { query: INCREMENT },
  { query: INCREMENT, variables: {} },
  { query: INCREMENT, variables: { name: 5 } },
  { query: INCREMENT, variables: { name: null } },
  { query: INCREMENT, variables: { name: 'c', other: 1 } },
  { query: 'query($n: [String!]!) { counters(names: $n) { value } }', variables: { n: ['a', null, 3] } },
  { query: 'query($n: String = null) { counter(name: "a", namespace: $n) { value } }' },
  // Documents that are wrong.
  { query: '' },
  { query: '{' },
  { query: '{ nope }' },
  { query: '{ counter(name: 1) { value } }' },
  { query: '{ counter { value } }' },
  { query: 'subscription { nope }' },
  { query: 'fragment F on Counter { name }' },
  { query: `{ ${'a '.repeat(10_001)} }` },
  // Operations that are not there.
  { query: '{ __typename }', operationName: 'Nope' },
  { query: 'query A { __typename } query B { __typename }' },
  { query: '{ __typename }', operationName: '' },
  // Parameters that are wrong.
  {},
  [],
  [{ query: '{ __typename }' }],
  null,
  5,
  'text',
  { query: 5 },
  { query: null },
  { query: ['{ __typename }'] },
  { query: '{ __typename }', variables: 'text' },
  { query: '{ __typename }', variables: [] },
  { query: '{ __typename }', extensions: 5 },
  { query: '{ __typename }', operationName: 5 },
  { query: '{ __typename }', extra: 1 },
  { variables: { a: 1 } },
]

/** The same as text, with some that are no JSON. */
export const texts = [
  ...bodies.map((body) => JSON.stringify(body)),
  '',
  '{',
  '{"query": nope}',
  '\ufeff{"query":"{ __typename }"}',
  '{"query":"{ __typename }","__proto__":{"a":1}}',
  '{"query":"{ __typename }"} ',
]
