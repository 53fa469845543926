import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { SCOPES } from '../../src/rules/rights.ts'
import { startProtected } from '../support/client/keys.ts'
import { collectStatements } from '../support/database/statements.ts'
import { fieldsWithRights } from '../support/fieldsWithRights.ts'

/**
 * Fields with rights: the scopes that allow each for a name, a document that selects it, and the scopes that the document
 * needs besides. In capitals: `AT` and `TICKETS`, the arguments of a name and of a sequence that is not gapless, parts of
 * them, and IDs of what has that name.
 */
const FIELDS: [field: string, scopes: string, document: string, besides?: string][] = [
  ['Query.counter', 'READ', '{ counter(AT) { value } }'],
  ['Query.counters', 'READ', '{ counters(NAMESPACE, names: [NAME]) { value } }'],
  ['Query.node', 'READ', '{ node(id: COUNTER) { id } }'],
  ['Query.nodes', 'READ', '{ nodes(ids: [SEQUENCE, GROUP]) { id } }'],
  ['Query.sequence', 'READ', '{ sequence(AT) { format } }'],
  ['Namespace.counters', 'READ', '{ namespace(name: SPACE) { counters(prefix: NAME) { nodes { value } } } }'],
  [
    'Namespace.sequences',
    'READ',
    '{ namespace(name: SPACE) { sequences(prefix: NAME) { nodes { format } } } }',
  ],
  ['Counter.changeOf', 'ADD WRITE', '{ counter(AT) { changeOf(subject: "s") { value } } }', 'READ'],
  ['Counter.holds', 'WRITE', '{ counter(AT) { holds { nodes { id } } } }', 'READ'],
  [
    'SequenceGroup.numbersOf',
    'NUMBER',
    '{ sequence(AT) { group { numbersOf(subject: "s") { value } } } }',
    'READ',
  ],
  ['Mutation.increment', 'ADD WRITE', 'mutation { increment(AT) { value } }'],
  ['Mutation.uncount', 'ADD WRITE', 'mutation { uncount(AT, subject: "s") { value } }'],
  ['Mutation.incrementBy', 'ADD WRITE', 'mutation { incrementBy(AT, delta: 1) { value } }'],
  ['Mutation.incrementBy', 'WRITE', 'mutation { incrementBy(AT, delta: -1) { value } }'],
  [
    'Mutation.incrementMany',
    'ADD WRITE',
    'mutation { incrementMany(NAMESPACE, changes: [{ name: NAME }]) { value } }',
  ],
  ['Mutation.hold', 'HOLD WRITE', 'mutation { hold(NAMESPACE, changes: [{ name: NAME }]) { state } }'],
  ['Mutation.confirmHold', 'ADD WRITE', 'mutation { confirmHold(id: HOLD) { value } }'],
  ['Mutation.extendHold', 'HOLD WRITE', 'mutation { extendHold(id: HOLD) { state } }'],
  ['Mutation.releaseHold', 'HOLD WRITE', 'mutation { releaseHold(id: HOLD) { state } }'],
  ['Mutation.reset', 'WRITE', 'mutation { reset(AT) { value } }'],
  ['Mutation.resetAll', 'WRITE', 'mutation { resetAll(NAMESPACE, prefix: NAME) { resetCount } }'],
  ['Mutation.defineCounter', 'DEFINE', 'mutation { defineCounter(AT, definition: {}) { name slots } }'],
  ['Mutation.deleteCounter', 'WRITE', 'mutation { deleteCounter(AT) { value } }'],
  ['Mutation.nextInSequence', 'NUMBER', 'mutation { nextInSequence(TICKETS) { value } }'],
  ['Mutation.restartSequence', 'WRITE', 'mutation { restartSequence(TICKETS) { name nextValue } }'],
  ['Mutation.reserveInSequence', 'NUMBER', 'mutation { reserveInSequence(AT) { value } }'],
  ['Mutation.confirmReservation', 'NUMBER', 'mutation { confirmReservation(id: RESERVATION) { value } }'],
  ['Mutation.releaseReservation', 'NUMBER', 'mutation { releaseReservation(id: RESERVATION) { value } }'],
  [
    'Mutation.defineSequence',
    'DEFINE',
    'mutation { defineSequence(AT, definition: { gapless: true }) { name format } }',
  ],
  ['Mutation.deleteSequence', 'WRITE', 'mutation { deleteSequence(TICKETS) { name } }'],
  ['Query.apiKeys', '', '{ apiKeys { nodes { id } } }'],
  [
    'Mutation.createApiKey',
    '',
    'mutation { createApiKey(label: "x", grants: [{ scopes: [READ] }]) { secret } }',
  ],
  ['Mutation.revokeApiKey', '', 'mutation { revokeApiKey(id: KEY) { id } }'],
  ['Query.trustedDocuments', '', '{ trustedDocuments { nodes { text } } }'],
  [
    'Mutation.addTrustedDocuments',
    '',
    'mutation { addTrustedDocuments(documents: [{ documentId: "a", text: "{ __typename }" }]) { text } }',
  ],
  ['Mutation.removeTrustedDocument', '', 'mutation { removeTrustedDocument(documentId: "none") { text } }'],
  ['CounterChange.counter', 'READ', 'mutation { increment(AT) { counter { value } } }', 'ADD'],
  [
    'HeldDelta.counter',
    'READ',
    'mutation { hold(NAMESPACE, changes: [{ name: NAME }]) { deltas { counter { value } } } }',
    'HOLD',
  ],
  ['SequenceNumbers.group', 'READ', 'mutation { nextInSequence(TICKETS) { group { lastValue } } }', 'NUMBER'],
  ['Reservation.group', 'READ', 'mutation { reserveInSequence(AT) { group { lastValue } } }', 'NUMBER'],
]

/** Rights that don't depend on a name, or on all names: tested in `rights.test.ts`. */
const OTHERS = [
  ...['Query.namespace', 'Query.namespaces', 'Query.viewer', 'Mutation.defineNamespace'],
  ...['Namespace.timeZone', 'Namespace.periods', 'Namespace.leaderboards'],
  // In `http/streams.test.ts`.
  ...['Subscription.counters', 'Subscription.nodes'],
  // In `liveByName.test.ts`.
  ...['Subscription.sequenceGroup', 'Subscription.leaderboard'],
  // In `places.test.ts`.
  ...['Counter.place', 'Counter.neighbors'],
]

it('fields: with a right are all tested here', () => {
  const withRight = fieldsWithRights().flatMap(({ type, field, right }) =>
    right.scope ? [`${type}.${field.name}`] : [],
  )
  const tested = new Set([...FIELDS.map(([field]) => field), ...OTHERS])
  expect(withRight.filter((coordinate) => !tested.has(coordinate))).toEqual([])
})

it('fields: that lead to something have a right, or a reason for none', () => {
  const entities = /^(Counter|Sequence|SequenceGroup|Reservation|Hold|Namespace|ApiKey|.*Connection)$/
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()]
  const wanted = Object.values(schema.getTypeMap()).flatMap((type) => {
    if (!('getFields' in type) || /^__|Connection$|Edge$|Input$/.test(type.name)) return []
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

const idOf = (type: string, ...names: string[]) =>
  JSON.stringify(Buffer.from(`${type}:${names.join('\n')}`).toString('base64url'))

const PLACES = [
  { namespace: 'shop', name: 'in-a' },
  { namespace: 'shop', name: 'out-a' },
  { namespace: 'other', name: 'in-a' },
]

it.each(SCOPES)('%s: allows what it grants, where it is granted, and nothing else', async (scope) => {
  const { admin, as, createKey } = await startProtected()
  const statements = collectStatements()
  const grant = { scopes: [scope], ...(scope !== 'ADMIN' && { namespace: 'shop', prefix: 'in-' }) }
  const secrets = new Map<string | undefined, string>()
  for (const besides of new Set(FIELDS.map(([, , , besides]) => besides)))
    secrets.set(besides, (await createKey([grant, ...(besides ? [{ scopes: [besides] }] : [])])).secret)
  for (const place of PLACES) {
    const at = `namespace: "${place.namespace}", name: "${place.name}"`
    const tickets = at.replace(/"$/, '-t"')
    const sequences = `a: defineSequence(${at}, definition: { gapless: true }) { name } b: nextInSequence(${tickets}) { value }`
    await admin.ask(`mutation { ${sequences} increment(${at}) { value } }`)
    for (const [field, scopes, template, besides] of FIELDS) {
      const isHidden = /^Mutation\.(confirm|extend|release)/.test(field)
      const isUnlimited = scope === 'ADMIN' || (besides === scope && scopes.split(' ').includes(scope))
      const isGranted = scopes.split(' ').includes(scope)
      const isAllowed = isUnlimited || (isGranted && place === PLACES[0])
      // The document is interpreted the first time, then compiled.
      for (const time of place.namespace === 'shop' ? ['first', 'second'] : ['first']) {
        const open = async (mutation: string, name: string): Promise<string> =>
          JSON.stringify((await admin.ask(`mutation { ${mutation} }`))[name].id)
        const values: Record<string, string> = {
          AT: at,
          TICKETS: tickets,
          NAMESPACE: `namespace: "${place.namespace}"`,
          SPACE: `"${place.namespace}"`,
          NAME: `"${place.name}"`,
          COUNTER: idOf('Counter', place.namespace, place.name),
          SEQUENCE: idOf('Sequence', place.namespace, place.name),
          GROUP: idOf('SequenceGroup', place.namespace, place.name, ''),
          KEY: idOf('ApiKey', '999'),
          ...(template.includes('RESERVATION') && {
            RESERVATION: await open(`reserveInSequence(${at}) { id }`, 'reserveInSequence'),
          }),
          ...(template.includes('(id: HOLD)') && {
            HOLD: await open(
              `hold(namespace: "${place.namespace}", changes: [{ name: "${place.name}" }]) { id }`,
              'hold',
            ),
          }),
        }
        const document = template.replaceAll(
          /(?<=[([ ])[A-Z]{2,}(?=[)\], ])/g,
          (word) => values[word] ?? word,
        )
        statements.length = 0
        const { errors, status } = await as(secrets.get(besides)).send(document)
        const about = `${field} at ${place.namespace} ${place.name}, the ${time} time: ${document}`
        const codes = errors?.map(({ extensions }) => extensions.code) ?? []
        if (isAllowed) {
          // What does not exist.
          const missing = /revoke|remove/.test(field) ? ['NOT_FOUND'] : []
          expect(codes, about).toEqual(missing)
          continue
        }
        expect([status, codes], about).toEqual([
          200,
          expect.arrayContaining([isHidden && isGranted ? 'NOT_FOUND' : 'FORBIDDEN']),
        ])
        // A hold's counters are looked up, and what surrounds a field runs. Work in the background may commit.
        const begun = statements.filter((text) => !text.startsWith('commit;'))
        if (!besides && !(isHidden && isGranted)) expect(begun, about).toEqual([])
      }
    }
  }
})
