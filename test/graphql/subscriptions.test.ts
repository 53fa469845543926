import { expect, it, onTestFinished } from 'vitest'
import { unavailable } from '../../src/rules/errors.ts'
import { upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, query as queryDatabase } from '../support/database/database.ts'
import { stopClock, turnedClock } from '../support/model/periods.ts'
import { startFront } from '../support/server/front.ts'
import { startService } from '../support/server/service.ts'
import { soon } from '../support/soon.ts'

stopClock()

type Row = { name: string; value: number }

const COUNTERS =
  'subscription ($names: [String!]!) { counters(names: $names) { ...F } } fragment F on Counter { name value }'
const increment = (name: string) => `mutation { increment(name: "${name}") { value } }`

const encoded = (id: string) => Buffer.from(id).toString('base64url')

it.each(['GET', 'POST'] as const)(
  'subscriptions: send what is there, then what changes: by %s',
  async (method) => {
    const { url, ask } = await startService()
    await ask(increment('b'))
    const stream = await subscribe(url, COUNTERS, { variables: { names: ['b', 'a', 'b', 'c'] }, method })
    expect(stream.status).toBe(200)
    expect(stream.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    expect(await stream.data()).toEqual({
      counters: [
        { name: 'b', value: 1 },
        { name: 'a', value: 0 },
        { name: 'c', value: 0 },
      ],
    })
    await ask(increment('c'))
    expect(await stream.data()).toEqual({ counters: [{ name: 'c', value: 1 }] })
    await ask(
      'mutation { incrementMany(changes: [{ name: "a" }, { name: "b" }, { name: "other" }]) { value } }',
    )
    const { counters } = await stream.data()
    expect(counters).toHaveLength(2)
    expect(counters).toEqual(
      expect.arrayContaining([
        { name: 'b', value: 2 },
        { name: 'a', value: 1 },
      ]),
    )
  },
)

it('subscriptions: send the newest state last, at most ten times a second, and never an older one', async () => {
  const { url, ask } = await startService()
  const names = ['a', 'b', 'c']
  const query = 'subscription ($names: [String!]!) { counters(names: $names) { name value revision } }'
  const stream = await subscribe(url, query, { variables: { names } })
  const began = performance.now()
  for (let time = 0; time < 150; time++) await ask(increment(names[time % 3] ?? ''))
  const seen = new Map<string, { value: number; revision: number }>()
  const isLast = () => names.every((name) => seen.get(name)?.value === 50)
  let events = 0
  while (!isLast()) {
    const { counters } = await stream.data()
    events += 1
    expect(counters).not.toEqual([])
    for (const { name, value, revision } of counters) {
      expect(revision).toBeGreaterThan(seen.get(name)?.revision ?? 0)
      seen.set(name, { value, revision })
    }
  }
  // The first, and one for each tenth of a second that began.
  expect(events).toBeLessThanOrEqual((performance.now() - began) / 100 + 2)
})

it('subscriptions: send what other processes change, and what is changed by hand', async () => {
  const target = await freshDatabase()
  const [first, second] = [await startService({ target }), await startService({ target })]
  await first.ask(increment('a'))
  const stream = await subscribe(first.url, COUNTERS, { variables: { names: ['a', 'b'] } })
  await stream.data()
  await second.ask(increment('b'))
  expect(await stream.data()).toEqual({ counters: [{ name: 'b', value: 1 }] })
  await queryDatabase(
    target,
    "update counter_value v join counter c on c.id = v.counter_id set v.value = 40 where c.name = 'a'",
  )
  expect(await stream.data()).toEqual({ counters: [{ name: 'a', value: 40 }] })
})

it('subscriptions: send no state from a server that is behind', async () => {
  const { url, ask, target } = await startService()
  for (const name of ['a', 'b']) await ask(increment(name))
  const stream = await subscribe(url, COUNTERS, { variables: { names: ['a', 'b'] } })
  await stream.data()
  const change = (name: string, value: number, raise: number) =>
    queryDatabase(
      target,
      `update counter_value v join counter c on c.id = v.counter_id set v.value = ${value}, v.revision = v.revision + ${raise} where c.name = '${name}'`,
    )
  await change('a', 40, -1)
  // Whoever finds this change by hand has read the other.
  await change('b', 50, 1)
  expect(await stream.data()).toEqual({ counters: [{ name: 'b', value: 50 }] })
  await change('a', 41, 1)
  expect(await stream.data()).toEqual({ counters: [{ name: 'a', value: 41 }] })
})

it('counters: sends definitions, deletions and resets', async () => {
  const { url, ask } = await startService()
  await ask(increment('a'))
  const stream = await subscribe(url, 'subscription { counters(names: ["a"]) { value maxValue timeZone } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 1, maxValue: null, timeZone: 'UTC' }] })
  await ask('mutation { defineCounter(name: "a", definition: { maxValue: 5 }) { name } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 1, maxValue: 5, timeZone: 'UTC' }] })
  await ask('mutation { reset(name: "a", to: 3) { value } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 3, maxValue: 5, timeZone: 'UTC' }] })
  await ask('mutation { deleteCounter(name: "a") { value } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 0, maxValue: null, timeZone: 'UTC' }] })
})

it('nodes: serves a whole page in one stream: counters, sequence groups and reservations', async () => {
  const { url, ask } = await startService()
  await ask(
    'mutation { defineSequence(name: "invoice", definition: { gapless: true, format: "I-{value}" }) { name } }',
  )
  const { reserveInSequence } = await ask(
    'mutation { reserveInSequence(name: "invoice", ttlSeconds: 600) { id } }',
  )
  const ids = [
    encoded('Counter:shop\na'),
    encoded('SequenceGroup:default\ninvoice\n'),
    encoded('SequenceGroup:default\nticket\nb'),
    reserveInSequence.id,
    encoded(`Reservation:${'0'.repeat(32)}`),
  ]
  const query = `subscription ($ids: [ID!]!) { nodes(ids: $ids) {
    __typename
    ... on Counter { name namespace { name } value valueIn(period: DAY) }
    ... on SequenceGroup { name lastFormatted nextFormatted sequence { name } }
    ... on Reservation { formatted state }
  } }`
  const stream = await subscribe(url, query, { variables: { ids }, method: 'POST' })
  const counter = { __typename: 'Counter', name: 'a', namespace: { name: 'shop' } }
  const invoices = {
    __typename: 'SequenceGroup',
    name: '',
    lastFormatted: 'I-1',
    sequence: { name: 'invoice' },
  }
  const tickets = { __typename: 'SequenceGroup', name: 'b', sequence: { name: 'ticket' } }
  expect(await stream.data()).toEqual({
    nodes: [
      { ...counter, value: 0, valueIn: 0 },
      { ...invoices, nextFormatted: 'I-2' },
      { ...tickets, lastFormatted: null, nextFormatted: 'b-1' },
      { __typename: 'Reservation', formatted: 'I-1', state: 'RESERVED' },
      null,
    ],
  })
  await ask('mutation { increment(namespace: "shop", name: "a") { value } }')
  expect(await stream.data()).toEqual({ nodes: [{ ...counter, value: 1, valueIn: 1 }] })
  await ask('mutation { nextInSequence(name: "ticket", group: "b") { value } }')
  expect(await stream.data()).toEqual({ nodes: [{ ...tickets, lastFormatted: 'b-1', nextFormatted: 'b-2' }] })
  await ask(`mutation { releaseReservation(id: "${reserveInSequence.id}") { state } }`)
  const changes = await stream.until(
    ({ nodes }) => nodes.at(-1).nextFormatted === 'I-1' || nodes[0].nextFormatted === 'I-1',
  )
  const changed = changes.flatMap(({ nodes }) => nodes)
  expect(changed).toHaveLength(2)
  expect(changed).toContainEqual({ ...invoices, nextFormatted: 'I-1' })
  expect(changed).toContainEqual({ __typename: 'Reservation', formatted: 'I-1', state: 'RELEASED' })
})

it.each(['valueIn(period: HOUR)', 'history(period: HOUR, last: 1) { value }', 'limits { used }'])(
  'counters: sends those in which a selected period has ended, though nobody changed them: %s',
  async (field) => {
    const clock = turnedClock('2026-03-01T09:59:00Z')
    const { url, ask } = await startFront({ now: clock.now })
    const limit = '{ maxIn: [{ period: HOUR, max: 5 }] }'
    await ask(`mutation { defineCounter(name: "a", definition: ${limit}) { name } }`)
    await ask(increment('a'))
    const selecting = (fields: string) =>
      subscribe(url, `subscription { counters(names: ["a", "b"]) { name value ${fields} } }`)
    const [other, stream] = [await selecting('valueIn(period: DAY)'), await selecting(`turned: ${field}`)]
    const [first] = (await stream.data()).counters
    expect(await other.data()).toMatchObject({ counters: [{ valueIn: 1 }, { valueIn: 0 }] })
    clock.at += 60_000
    const { counters } = await stream.data()
    expect(counters.map(({ name, value }: Row) => [name, value])).toEqual([
      ['a', 1],
      ['b', 0],
    ])
    expect(JSON.stringify([first.turned, counters[0].turned])).toMatch(/1.*0/)
    // Of the stream whose day goes on, the next event is this change.
    await ask(increment('a'))
    expect(await other.data()).toEqual({ counters: [{ name: 'a', value: 2, valueIn: 2 }] })
  },
)

it('held: is sent when a hold expires, though nobody changes anything', async () => {
  const { url, ask, target } = await startService()
  const stream = await subscribe(url, 'subscription { counters(names: ["a"]) { value held } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 0, held: 0 }] })
  await ask('mutation { hold(changes: [{ name: "a", delta: 3 }]) { id } }')
  expect(await stream.data()).toEqual({ counters: [{ value: 0, held: 3 }] })
  await queryDatabase(
    target,
    'update counter_value set first_expiry = 1',
    'update hold set open_until = 1, expires_at = 1',
  )
  expect(await stream.data()).toEqual({ counters: [{ value: 0, held: 0 }] })
})

it('nodes: sends the next number of a sequence that restarts with a period', async () => {
  const clock = turnedClock('2026-12-31T23:59:00Z')
  const { url, ask } = await startFront({ now: clock.now })
  await ask(
    'mutation { defineSequence(name: "s", definition: { restartEvery: YEAR, format: "{yyyy}-{value}" }) { name } nextInSequence(name: "s") { value } }',
  )
  const ids = [encoded('SequenceGroup:default\ns\n')]
  const query =
    'subscription ($ids: [ID!]!) { nodes(ids: $ids) { ... on SequenceGroup { lastFormatted nextFormatted } } }'
  const stream = await subscribe(url, query, { variables: { ids } })
  expect(await stream.data()).toEqual({ nodes: [{ lastFormatted: '2026-1', nextFormatted: '2026-2' }] })
  clock.at += 60_000
  expect(await stream.data()).toEqual({ nodes: [{ lastFormatted: '2026-1', nextFormatted: '2027-1' }] })
})

it('nodes: sends no event of what no longer exists', async () => {
  const { url, ask } = await startService()
  await ask('mutation { defineSequence(name: "s", definition: { gapless: true }) { name } }')
  const { reserveInSequence } = await ask('mutation { reserveInSequence(name: "s") { id } }')
  const ids = [reserveInSequence.id, encoded('Counter:default\na')]
  const query =
    'subscription ($ids: [ID!]!) { nodes(ids: $ids) { ... on Reservation { state } ... on Counter { value } } }'
  const stream = await subscribe(url, query, { variables: { ids } })
  expect(await stream.data()).toEqual({ nodes: [{ state: 'RESERVED' }, { value: 0 }] })
  await ask('mutation { deleteSequence(name: "s") { name } }')
  // For another one it is read again, without what was deleted.
  const other = await subscribe(url, query.replace('value }', 'name }'), { variables: { ids } })
  expect(await other.data()).toEqual({ nodes: [null, { name: 'a' }] })
  await ask(increment('a'))
  expect(await stream.data()).toEqual({ nodes: [{ value: 1 }] })
})

it('nodes: sends that a reservation has expired', async () => {
  const { url, ask } = await startService()
  await ask('mutation { defineSequence(name: "invoice", definition: { gapless: true }) { name } }')
  const { reserveInSequence } = await ask(
    'mutation { reserveInSequence(name: "invoice", ttlSeconds: 1) { id } }',
  )
  const stream = await subscribe(
    url,
    'subscription ($ids: [ID!]!) { nodes(ids: $ids) { ... on Reservation { state } } }',
    {
      variables: { ids: [reserveInSequence.id] },
    },
  )
  expect(await stream.data()).toEqual({ nodes: [{ state: 'RESERVED' }] })
  expect(await stream.data()).toEqual({ nodes: [{ state: 'EXPIRED' }] })
})

it('Accept: subscriptions are answered by events only, and other operations by events to those who ask for them', async () => {
  const { url, post } = await startService()
  const query = 'subscription { counters(names: ["a"]) { value } }'
  for (const accept of ['application/json', 'multipart/mixed']) {
    const { status, body } = await post(JSON.stringify({ query }), { accept })
    expect([status, body.errors?.[0]?.extensions.code]).toEqual([406, 'BAD_REQUEST'])
    if (accept === 'application/json')
      expect(body.errors?.[0]?.message).toContain('Accept: text/event-stream')
  }
  // As curl and fetch send it, and urql.
  for (const accept of ['*/*', 'application/graphql-response+json, application/json, text/event-stream']) {
    const stream = await subscribe(url, query, { headers: { accept }, method: 'POST' })
    expect(await stream.data()).toEqual({ counters: [{ value: 0 }] })
  }
  for (const [method, operation, data] of [
    ['GET', '{ counter(name: "a") { value } }', { counter: { value: 0 } }],
    ['POST', increment('a'), { increment: { value: 1 } }],
    ['POST', '{ counter(name: "a") { value } }', { counter: { value: 1 } }],
  ] as const) {
    const stream = await subscribe(url, operation, { method })
    expect([await stream.next(), await stream.next()]).toEqual([{ data }, 'complete'])
  }
  const { status, body } = await subscribe(url, increment('a'))
  expect([status, (await body()).errors?.[0]?.extensions.code]).toEqual([405, 'OPERATION_RESOLUTION_FAILURE'])
})

const NODES = 'subscription ($ids: [ID!]!) { nodes(ids: $ids) { id } }'

it.each<[code: string, document: string, variables?: object]>([
  ['BAD_USER_INPUT', COUNTERS, { names: [] }],
  ['BAD_USER_INPUT', COUNTERS, { names: upTo(501).map(String) }],
  ['BAD_USER_INPUT', COUNTERS, { names: ['a', ''] }],
  ['BAD_USER_INPUT', COUNTERS, { names: ['a', 5] }],
  ['BAD_USER_INPUT', COUNTERS],
  ['BAD_USER_INPUT', NODES, { ids: [] }],
  ['BAD_USER_INPUT', NODES, { ids: ['nonsense'] }],
  ...['Sequence:default\na', 'Namespace:default', 'ApiKey:1'].map((id): [string, string, object] => {
    return ['BAD_USER_INPUT', NODES, { ids: [encoded(id)] }]
  }),
  ['BAD_USER_INPUT', 'subscription { leaderboard(first: 0) { value } }'],
  ['BAD_USER_INPUT', 'subscription { leaderboard(first: 101) { value } }'],
  ['BAD_USER_INPUT', 'subscription { leaderboard(orderBy: NAME_ASC) { value } }'],
  ['BAD_USER_INPUT', 'subscription { leaderboard(orderBy: UPDATED_AT_DESC, period: DAY) { value } }'],
  ['BAD_USER_INPUT', 'subscription { leaderboard(namespace: "") { value } }'],
  ['BAD_USER_INPUT', 'subscription { sequenceGroup(name: "") { lastValue } }'],
  ['GRAPHQL_VALIDATION_FAILED', 'subscription { counters(names: ["a"]) { value } nodes(ids: ["x"]) { id } }'],
  ['GRAPHQL_VALIDATION_FAILED', 'subscription { nope }'],
  ['GRAPHQL_PARSE_FAILED', 'subscription {'],
])('subscriptions: are refused with %s: %s', async (code, document, variables) => {
  const { url } = await startService()
  for (const method of ['GET', 'POST'] as const) {
    const stream = await subscribe(url, document, { ...(variables && { variables }), method })
    // GraphQL over SSE: in an accepted stream.
    expect([stream.status, typeof stream.headers['x-request-id']]).toEqual([200, 'string'])
    const extensions = { code, ...(code === 'BAD_USER_INPUT' && { argument: expect.any(String) }) }
    expect(await stream.next()).toMatchObject({ errors: [{ extensions }] })
    expect(await stream.next()).toBe('complete')
  }
  // Whoever also accepts JSON gets JSON.
  const headers = { accept: 'application/graphql-response+json, text/event-stream' }
  const response = await subscribe(url, document, {
    ...(variables && { variables }),
    method: 'POST',
    headers,
  })
  expect([response.status, (await response.body()).errors?.[0]?.extensions.code]).toEqual([400, code])
})

it('subscriptions: may have an address of 16 kB', async () => {
  const { url } = await startService()
  const names = Array.from({ length: 150 }, (_, index) => `${index}`.padStart(90, 'n'))
  const stream = await subscribe(url, COUNTERS, { variables: { names } })
  expect((await stream.data()).counters).toHaveLength(150)
})

it('subscriptions: send the same to all of their streams, whenever they join', async () => {
  const { url, ask } = await startService()
  const open = () => subscribe(url, COUNTERS, { variables: { names: ['a'] } })
  const streams = await Promise.all(Array.from({ length: 20 }, open))
  for (const stream of streams) expect(await stream.data()).toEqual({ counters: [{ name: 'a', value: 0 }] })
  await ask(increment('a'))
  const late = await open()
  expect(await late.data()).toEqual({ counters: [{ name: 'a', value: 1 }] })
  await ask(increment('a'))
  for (const stream of [...streams, late]) {
    const [last] = (await stream.until(({ counters }) => counters[0].value === 2)).slice(-1)
    expect(last).toEqual({ counters: [{ name: 'a', value: 2 }] })
  }
  await soon('all closed', Promise.all(streams.map((stream) => stream.close())))
})

it('subscriptions: do not let a stream wait for the first event of another one', async () => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  onTestFinished(() => release())
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  let calls = 0
  const { url, ask } = await startFront({
    around: (nth) => ({
      ...nth,
      counters: {
        ...nth.counters,
        async valueIn(...call) {
          calls += 1
          begin()
          if (calls === 1) await released
          return nth.counters.valueIn(...call)
        },
      },
    }),
  })
  const open = () => subscribe(url, 'subscription { counters(names: ["a"]) { value valueIn(period: DAY) } }')
  const first = open()
  await begun
  await ask(increment('a'))
  const second = await open()
  expect(await second.data()).toEqual({ counters: [{ value: 1, valueIn: 1 }] })
  release()
  const [last] = (await (await first).until(({ counters }) => counters[0].value === 1)).slice(-1)
  expect(last).toEqual({ counters: [{ value: 1, valueIn: 1 }] })
})

it('subscriptions: ignore variables that they do not declare, however deep they are', async () => {
  const { url, faults } = await startService()
  const query = 'subscription { counters(names: ["a"]) { name value } }'
  const junk = `${'['.repeat(9000)}${']'.repeat(9000)}`
  const body = `{"query":${JSON.stringify(query)},"variables":{"junk":${junk}}}`
  const stream = await subscribe(url, query, { method: 'POST', body })
  expect(await stream.data()).toEqual({ counters: [{ name: 'a', value: 0 }] })
  expect(faults).toEqual([])
})

it('subscriptions: send what changed again until its event could be read', async () => {
  let failures = 0
  let isFailing = false
  const { url, ask, faults } = await startFront({
    around: (nth) => ({
      ...nth,
      counters: {
        ...nth.counters,
        async valueIn(...call) {
          if (!isFailing) return nth.counters.valueIn(...call)
          failures += 1
          throw unavailable('The database is unreachable.')
        },
      },
    }),
  })
  const stream = await subscribe(
    url,
    'subscription { counters(names: ["a"]) { value valueIn(period: DAY) } }',
  )
  expect(await stream.data()).toEqual({ counters: [{ value: 0, valueIn: 0 }] })
  isFailing = true
  await ask(increment('a'))
  await expect.poll(() => failures).toBeGreaterThan(2)
  isFailing = false
  expect(await stream.data()).toEqual({ counters: [{ value: 1, valueIn: 1 }] })
  // And then what changes, as before.
  await ask(increment('a'))
  expect(await stream.data()).toEqual({ counters: [{ value: 2, valueIn: 2 }] })
  expect(faults).toEqual([])
})
