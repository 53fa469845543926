import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { SCOPES, type Scope } from '../../src/rules/rights.ts'
import type { Answer } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { collectStatements } from '../support/database/statements.ts'
import { fieldsWithRights } from '../support/fieldsWithRights.ts'

const encoded = (type: string, ...names: string[]) =>
  Buffer.from(`${type}:${names.join('\n')}`).toString('base64url')

interface Named {
  namespace: string
  name: string
  /** IDs of an open reservation in the sequence of that name: for each use another one. */
  reservation: string
  /** ID of an open hold on the counter of that name: for each use another one. */
  hold: string
}

interface Operation {
  /** Its field in the table of rights. */
  of: string
  scopes: Scope[]
  /** The field as selected, with its arguments. */
  field: (named: Named) => string
  /** Where it is selected within the field of another object. */
  within?: (named: Named, field: string) => string
  isMutation?: true
  /** Of whom it is hidden, rather than refused. */
  isHidden?: true
}

const args = ({ namespace, name }: Pick<Named, 'namespace' | 'name'>, ...more: string[]) =>
  `(${[`namespace: "${namespace}"`, `name: "${name}"`, ...more].join(', ')})`

const write = (of: string, scopes: Scope[], field: Operation['field']): Operation => ({
  of,
  scopes,
  field,
  isMutation: true,
})
const inNamespace = ({ namespace }: Named, field: string) => `namespace(name: "${namespace}") { ${field} }`

/** Where the whole namespace is needed, the grants of this test don't reach. */
const operations: Operation[] = [
  { of: 'Query.counter', scopes: ['READ'], field: (named) => `counter${args(named)} { value }` },
  {
    of: 'Query.counters',
    scopes: ['READ'],
    field: ({ namespace, name }) => `counters(namespace: "${namespace}", names: ["${name}"]) { value }`,
  },
  {
    of: 'Query.node',
    scopes: ['READ'],
    field: ({ namespace, name }) => `node(id: "${encoded('Counter', namespace, name)}") { id }`,
  },
  {
    of: 'Query.nodes',
    scopes: ['READ'],
    field: ({ namespace, name }) =>
      `nodes(ids: ["${encoded('Sequence', namespace, name)}", "${encoded('SequenceGroup', namespace, name, '')}"]) { id }`,
  },
  { of: 'Query.sequence', scopes: ['READ'], field: (named) => `sequence${args(named)} { format }` },
  {
    of: 'Namespace.counters',
    scopes: ['READ'],
    field: ({ name }) => `counters(prefix: "${name}") { nodes { value } }`,
    within: inNamespace,
  },
  {
    of: 'Namespace.sequences',
    scopes: ['READ'],
    field: ({ name }) => `sequences(prefix: "${name}") { nodes { format } }`,
    within: inNamespace,
  },
  write('Mutation.increment', ['ADD', 'WRITE'], (named) => `increment${args(named)} { value }`),
  write('Mutation.uncount', ['ADD', 'WRITE'], (named) => `uncount${args(named, 'subject: "s"')} { value }`),
  {
    of: 'Counter.changeOf',
    scopes: ['ADD', 'WRITE'],
    field: () => 'changeOf(subject: "s") { value }',
    within: (named, field) => `counter${args(named)} { ${field} }`,
  },
  {
    of: 'SequenceGroup.numbersOf',
    scopes: ['NUMBER', 'WRITE'],
    field: () => 'numbersOf(subject: "s") { value }',
    within: (named, field) => `sequence${args(named)} { group { ${field} } }`,
  },
  write(
    'Mutation.incrementBy',
    ['ADD', 'WRITE'],
    (named) => `incrementBy${args(named, 'delta: 1')} { value }`,
  ),
  write('Mutation.incrementBy', ['WRITE'], (named) => `incrementBy${args(named, 'delta: -1')} { value }`),
  write(
    'Mutation.incrementMany',
    ['ADD', 'WRITE'],
    ({ namespace, name }) =>
      `incrementMany(namespace: "${namespace}", changes: [{ name: "${name}" }]) { value }`,
  ),
  write(
    'Mutation.hold',
    ['HOLD', 'WRITE'],
    ({ namespace, name }) => `hold(namespace: "${namespace}", changes: [{ name: "${name}" }]) { state }`,
  ),
  {
    ...write('Mutation.confirmHold', ['ADD', 'WRITE'], ({ hold }) => `confirmHold(id: "${hold}") { value }`),
    isHidden: true,
  },
  {
    ...write('Mutation.extendHold', ['HOLD', 'WRITE'], ({ hold }) => `extendHold(id: "${hold}") { state }`),
    isHidden: true,
  },
  {
    ...write('Mutation.releaseHold', ['HOLD', 'WRITE'], ({ hold }) => `releaseHold(id: "${hold}") { state }`),
    isHidden: true,
  },
  {
    of: 'Counter.holds',
    scopes: ['WRITE'],
    field: () => 'holds { nodes { id } }',
    within: (named, field) => `counter${args(named)} { ${field} }`,
  },
  {
    of: 'HeldDelta.counter',
    scopes: ['READ'],
    field: () => 'counter { value }',
    within: ({ namespace, name }, field) =>
      `hold(namespace: "${namespace}", changes: [{ name: "${name}" }]) { deltas { ${field} } }`,
    isMutation: true,
  },
  write('Mutation.reset', ['WRITE'], (named) => `reset${args(named)} { value }`),
  write(
    'Mutation.resetAll',
    ['WRITE'],
    ({ namespace, name }) => `resetAll(namespace: "${namespace}", prefix: "${name}") { resetCount }`,
  ),
  write(
    'Mutation.defineCounter',
    ['DEFINE'],
    (named) => `defineCounter${args(named, 'definition: {}')} { name slots }`,
  ),
  write('Mutation.deleteCounter', ['WRITE'], (named) => `deleteCounter${args(named)} { value }`),
  write(
    'Mutation.nextInSequence',
    ['NUMBER'],
    (named) => `nextInSequence${args({ ...named, name: `${named.name}-t` })} { value }`,
  ),
  write(
    'Mutation.restartSequence',
    ['WRITE'],
    (named) => `restartSequence${args({ ...named, name: `${named.name}-t` })} { name nextValue }`,
  ),
  write('Mutation.reserveInSequence', ['NUMBER'], (named) => `reserveInSequence${args(named)} { value }`),
  {
    ...write(
      'Mutation.confirmReservation',
      ['NUMBER'],
      ({ reservation }) => `confirmReservation(id: "${reservation}") { value }`,
    ),
    isHidden: true,
  },
  {
    ...write(
      'Mutation.releaseReservation',
      ['NUMBER'],
      ({ reservation }) => `releaseReservation(id: "${reservation}") { value }`,
    ),
    isHidden: true,
  },
  write(
    'Mutation.defineSequence',
    ['DEFINE'],
    (named) => `defineSequence${args(named, 'definition: { gapless: true }')} { name format }`,
  ),
  write(
    'Mutation.deleteSequence',
    ['WRITE'],
    (named) => `deleteSequence${args({ ...named, name: `${named.name}-t` })} { name }`,
  ),
  { of: 'Query.apiKeys', scopes: [], field: () => 'apiKeys { nodes { id } }' },
  write(
    'Mutation.createApiKey',
    [],
    () => 'createApiKey(label: "x", grants: [{ scopes: [READ] }]) { secret }',
  ),
  { of: 'Query.trustedDocuments', scopes: [], field: () => 'trustedDocuments { nodes { text } }' },
  write(
    'Mutation.addTrustedDocuments',
    [],
    () => 'addTrustedDocuments(documents: [{ documentId: "a", text: "{ __typename }" }]) { text }',
  ),
  write('Mutation.removeTrustedDocument', [], () => 'removeTrustedDocument(documentId: "none") { text }'),
  write('Mutation.revokeApiKey', [], () => `revokeApiKey(id: "${encoded('ApiKey', '999')}") { id }`),
  {
    of: 'CounterChange.counter',
    scopes: ['READ'],
    field: () => 'counter { value }',
    within: (named, field) => `increment${args(named)} { ${field} }`,
    isMutation: true,
  },
  {
    of: 'SequenceNumbers.group',
    scopes: ['READ'],
    field: () => 'group { lastValue }',
    within: (named, field) => `nextInSequence${args({ ...named, name: `${named.name}-t` })} { ${field} }`,
    isMutation: true,
  },
  {
    of: 'Reservation.group',
    scopes: ['READ'],
    field: () => 'group { lastValue }',
    within: (named, field) => `reserveInSequence${args(named)} { ${field} }`,
    isMutation: true,
  },
]

/** Rights that don't depend on a name, or on all names: tested in `rights.test.ts`. */
const OTHERS = [
  'Query.namespace',
  'Query.namespaces',
  'Query.viewer',
  // In `http/streams.test.ts`.
  'Subscription.counters',
  'Subscription.nodes',
  // In `liveByName.test.ts`.
  'Subscription.sequenceGroup',
  'Subscription.leaderboard',
  'Mutation.defineNamespace',
  'Namespace.timeZone',
  'Namespace.periods',
  'Namespace.leaderboards',
  // In `places.test.ts`.
  'Counter.place',
  'Counter.neighbors',
]

/** Every way in which a document can be sent. */
type Way = 'alias' | 'lean' | 'Yoga' | 'GET' | 'persisted'

it('has each field with a right in this table', () => {
  const withRight = fieldsWithRights().flatMap(({ type, field, right }) =>
    right.scope ? [`${type}.${field.name}`] : [],
  )
  const tested = new Set([...operations.map(({ of }) => of), ...OTHERS])
  expect(withRight.filter((coordinate) => !tested.has(coordinate))).toEqual([])
})

it('has a right, or a reason for none, for each field that leads to something', () => {
  const entities = /^(Counter|Sequence|SequenceGroup|Reservation|Hold|Namespace|ApiKey|.*Connection)$/
  const wanted = Object.values(schema.getTypeMap()).flatMap((type) => {
    if (!('getFields' in type) || type.name.startsWith('__') || /Connection$|Edge$|Input$/.test(type.name))
      return []
    const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]
    const isRoot = roots.some((root) => type === root)
    return Object.values(type.getFields())
      .filter((field) => isRoot || entities.test(String(field.type).replaceAll(/[[\]!]/g, '')))
      .map((field) => `${type.name}.${field.name}`)
  })
  // Their keys are reached by administrators and by the key itself.
  const keys = ['CreatedApiKey.key', 'Viewer.key']
  const known = fieldsWithRights().map(({ type, field }) => `${type}.${field.name}`)
  expect(wanted.filter((coordinate) => !known.includes(coordinate) && !keys.includes(coordinate))).toEqual([])
})

it.each<Way>(['lean'])('allows exactly what a key grants: %s', allowsWhatIsGranted)

it.each<Way>(['Yoga', 'alias', 'GET', 'persisted'])(
  'allows exactly what a key grants: %s',
  { tags: 'slow' },
  allowsWhatIsGranted,
)

async function allowsWhatIsGranted(way: Way): Promise<void> {
  const { admin, createKey, post, url } = await startProtected()
  const statements = collectStatements()
  const places = [
    { isInside: true, namespace: 'shop', name: 'in-a' },
    { isInside: false, namespace: 'shop', name: 'out-a' },
    { isInside: false, namespace: 'other', name: 'in-a' },
  ]
  const secrets = new Map<Scope, string>()
  for (const scope of SCOPES) {
    const limits = scope === 'ADMIN' ? {} : { namespace: 'shop', prefix: 'in-' }
    const { secret } = await createKey([{ scopes: [scope], ...limits }])
    secrets.set(scope, secret)
  }
  for (const { namespace, name } of places) {
    await admin.ask(`mutation {
      defineSequence${args({ namespace, name }, 'definition: { gapless: true }')} { name }
      nextInSequence${args({ namespace, name: `${name}-t` })} { value }
      increment${args({ namespace, name })} { value }
    }`)
  }

  async function reservationIn(namespace: string, name: string): Promise<string> {
    const { reserveInSequence } = await admin.ask(
      `mutation { reserveInSequence(namespace: "${namespace}", name: "${name}") { id } }`,
    )
    return reserveInSequence.id
  }

  async function holdIn(namespace: string, name: string): Promise<string> {
    const { hold } = await admin.ask(
      `mutation { hold(namespace: "${namespace}", changes: [{ name: "${name}" }]) { id } }`,
    )
    return hold.id
  }

  async function sent(
    secret: string | undefined,
    query: string,
  ): Promise<Answer & { status: number; text: string }> {
    const headers: Record<string, string> = secret === undefined ? {} : { authorization: `Bearer ${secret}` }
    if (way === 'GET') {
      const response = await fetch(`${url}/graphql?query=${encodeURIComponent(query)}`, { headers })
      const text = await response.text()
      return { status: response.status, text, ...JSON.parse(text) }
    }
    if (way === 'Yoga') headers.accept = 'application/json;q=0.9'
    const extensions = {
      persistedQuery: { version: 1, sha256Hash: createHash('sha256').update(query).digest('hex') },
    }
    const body = way === 'persisted' ? { query, extensions } : { query }
    const answer = await post(JSON.stringify(body), headers)
    return { status: answer.status, text: JSON.stringify(answer.body), ...answer.body }
  }

  for (const operation of operations) {
    const { of, scopes, field, within, isMutation, isHidden } = operation
    if (way === 'GET' && isMutation) continue
    for (const { isInside, namespace, name } of places) {
      for (const [scope, secret] of secrets) {
        // An unlimited right to what surrounds the field, so that only its own is tested.
        const surrounding = within && isMutation ? [{ scopes: ['ADD', 'NUMBER', 'HOLD'] }] : []
        const isReached = within && !isMutation && scope !== 'READ' && scope !== 'ADMIN'
        if (isReached || (within && !isMutation && namespace === 'other' && scope !== 'ADMIN')) continue
        const own = scope === 'ADMIN' ? {} : { namespace: 'shop', prefix: 'in-' }
        const used =
          surrounding.length > 0
            ? (await createKey([{ scopes: [scope], ...own }, ...surrounding])).secret
            : secret
        // The document is interpreted the first time, then compiled.
        for (const _ of [1, 2, 3]) {
          const named = {
            namespace,
            name,
            reservation: of.endsWith('Reservation') ? await reservationIn(namespace, name) : '',
            hold: of.endsWith('Hold') ? await holdIn(namespace, name) : '',
          }
          const text = within ? within(named, field(named)) : field(named)
          const isAlias = way === 'alias' && !isMutation
          const aliased = way === 'alias' ? `a: ${text}` : text
          const query = `${isMutation ? 'mutation ' : ''}{ ${aliased} ${isAlias ? 'b: viewer { kind }' : ''} }`
          statements.length = 0
          const { data, errors, status } = await sent(used, query)
          const isAllowed = scope === 'ADMIN' || (isInside && scopes.includes(scope))
          const about = `${of} with ${scope} ${isInside ? 'inside' : `outside: ${namespace} ${name}`} by ${way}`
          if (['Mutation.revokeApiKey', 'Mutation.removeTrustedDocument'].includes(of) && isAllowed) {
            expect(errors?.[0]?.extensions.code, about).toBe('NOT_FOUND')
          } else if (isAllowed) {
            expect(errors, about).toBeUndefined()
          } else {
            const isUnknown = isHidden && scopes.includes(scope)
            expect(errors?.map(({ extensions }) => extensions.code) ?? [], about).toContain(
              isUnknown ? 'NOT_FOUND' : 'FORBIDDEN',
            )
            expect(status, about).toBe(200)
            if (isAlias) expect(data.b, about).toEqual({ kind: 'KEY' })
            // A reservation's sequence is looked up; what surrounds a field runs. Work in the background may commit.
            const begun = statements.filter((text) => !text.startsWith('commit;'))
            if (!isUnknown && !within) expect(begun, about).toEqual([])
          }
        }
      }
    }
  }
}
