import { expect, it } from 'vitest'
import { startIssuer } from '../support/client/issuer.ts'
import { startProtected } from '../support/client/keys.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

const ONCE = { scopes: ['ADD', 'NUMBER', 'READ'], namespace: 'blog', onceOnly: true }

it('onceOnly: refuses changes for no subject, and says what to call', async () => {
  const { as, admin, createKey } = await startProtected()
  const { secret } = await createKey([ONCE])
  const { send, ask } = as(secret)
  const refused = {
    'increment(namespace: "blog", name: "likes") { value }': 'increment',
    'incrementBy(namespace: "blog", name: "likes", delta: 1) { value }': 'increment',
    'incrementBy(namespace: "blog", name: "likes", delta: -1) { value }': 'increment',
    'incrementMany(namespace: "blog", changes: [{ name: "likes" }]) { value }': 'increment',
    'nextInSequence(namespace: "blog", name: "seat") { value }': 'nextInSequence',
    'reserveInSequence(namespace: "blog", name: "seat") { value }': 'nextInSequence',
  }
  for (const [field, mutation] of Object.entries(refused)) {
    const { errors } = await send(`mutation { ${field} }`)
    expect([field, errors?.[0]?.extensions.code]).toEqual([field, 'FORBIDDEN'])
    expect(errors?.[0]?.message).toContain(`only with a subject: call \`${mutation}\` with \`subject\`.`)
  }
  const { errors } = await send(
    'mutation { incrementMany(namespace: "blog", changes: [{ name: "likes" }]) { value } }',
  )
  expect(errors?.[0]?.extensions).toEqual({ code: 'FORBIDDEN', index: 0 })
  expect(await admin.ask('{ counter(namespace: "blog", name: "likes") { value } }')).toEqual({
    counter: { value: 0 },
  })
  expect(await ask('{ viewer { grants { scopes onceOnly } } }')).toEqual({
    viewer: { grants: [{ scopes: ONCE.scopes, onceOnly: true }] },
  })
})

it('onceOnly: allows what another grant of the same key allows', async () => {
  const { as, createKey } = await startProtected()
  const plain = { scopes: ['ADD'], namespace: 'blog', names: ['views'], maxDelta: 3 }
  const { secret } = await createKey([{ ...ONCE, maxDelta: 9 }, plain])
  const { ask, refusal } = as(secret)
  const add = (name: string, delta: number) =>
    `mutation { incrementBy(namespace: "blog", name: "${name}", delta: ${delta}) { value } }`
  expect(await ask(add('views', 3))).toEqual({ incrementBy: { value: 3 } })
  expect(await refusal(add('views', 4))).toEqual({ code: 'FORBIDDEN', limit: 3 })
  expect(await refusal(add('likes', 1))).toEqual({ code: 'FORBIDDEN' })
})

const count = (named = '') =>
  `mutation { increment(namespace: "blog", name: "likes"${named}) { value appliedDelta alreadyCounted } }`
const takeBack = (subject: string) =>
  `mutation { uncount(namespace: "blog", name: "likes", subject: "${subject}") { value } }`
const read = (subject: string) =>
  `{ counter(namespace: "blog", name: "likes") { changeOf(subject: "${subject}") { value } } }`

const FIRST = { value: 1, appliedDelta: 1, alreadyCounted: false }
const AGAIN = { value: 1, appliedDelta: 0, alreadyCounted: true }

it('tokens: count for their own sub, by default with onceOnly, and for others only with WRITE', async () => {
  const { settings, token } = await startIssuer()
  const { as, admin } = await startProtected({ access: { tokens: settings } })
  const caller = async (sub: string, ...grants: object[]) => as(await token({ sub, nth: { grants } }))
  const ann = await caller('ann', ONCE)
  // The first time by graphql-js, then compiled.
  for (const change of [FIRST, AGAIN, AGAIN]) expect(await ann.ask(count())).toEqual({ increment: change })
  expect(await ann.ask(count(', subject: "ann"'))).toEqual({ increment: AGAIN })
  expect(await ann.ask(read('ann'))).toEqual({ counter: { changeOf: { value: 1 } } })

  const bob = await caller('bob', { ...ONCE, onceOnly: false })
  for (const { refusal } of [bob, await caller('bob', ONCE)]) {
    for (const call of [count(', subject: "ann"'), takeBack('ann'), read('ann')])
      expect(await refusal(call)).toEqual({ code: 'FORBIDDEN' })
  }
  expect(await bob.ask(count())).toEqual({ increment: { ...FIRST, value: 2 } })
  expect(await bob.ask(count())).toEqual({ increment: { ...FIRST, value: 3 } })
  expect(await bob.ask(read('bob'))).toEqual({ counter: { changeOf: null } })

  const writer = await caller('eve', ONCE, { scopes: ['WRITE'], namespace: 'blog' })
  expect(await writer.ask(count(', subject: "ann"'))).toEqual({ increment: AGAIN })
  expect(await writer.ask(read('ann'))).toEqual({ counter: { changeOf: { value: 1 } } })
  expect(await writer.ask(count())).toEqual({ increment: { ...FIRST, value: 4 } })
  const reader = await caller('ann', { scopes: ['READ'] })
  expect(await reader.refusal(read('ann'))).toEqual({ code: 'FORBIDDEN' })

  expect(await ann.ask(takeBack('ann'))).toEqual({ uncount: { value: 3 } })
  expect(await admin.ask(read('ann'))).toEqual({ counter: { changeOf: null } })
})

it('tokens: replay an idempotency key, whether they name their sub or not', async () => {
  const { settings, token } = await startIssuer()
  const { as } = await startProtected({ access: { tokens: settings } })
  const { ask } = as(await token({ sub: 'ann', nth: { grants: [ONCE] } }))
  for (const named of ['', ', subject: "ann"'])
    expect(await ask(count(`${named}, idempotencyKey: "k"`))).toEqual({ increment: FIRST })
})

it('tokens: are refused if their sub is too long for a subject', async () => {
  const { settings, token } = await startIssuer()
  const { as } = await startProtected({ access: { tokens: settings } })
  const { refusal } = as(await token({ sub: 'a'.repeat(256), nth: { grants: [ONCE] } }))
  expect(await refusal(count())).toEqual({ code: 'UNAUTHENTICATED' })
})

it('subjects: of pages must be hard to guess, and those of servers may be any', async () => {
  const { as, createKey } = await startProtected({ access: { anonymous: ['READ', 'ADD'] } })
  const page = as((await createKey([ONCE], { origins: ['*'] })).secret)
  const short = { code: 'BAD_USER_INPUT', argument: 'subject', limit: 16 }
  for (const call of [count, next]
    .map((of) => of(', subject: "ann"'))
    .concat(takeBack('ann'), read('ann'), numberOf('ann')))
    expect(await page.refusal(call)).toEqual(short)
  const random = '3f9d2c41-77aa-4d5e'
  expect(await page.ask(count(`, subject: "${random}"`))).toEqual({ increment: FIRST })
  expect(await page.ask(count(`, subject: "${random}"`))).toEqual({ increment: AGAIN })
  expect(await page.ask(read(random))).toEqual({ counter: { changeOf: { value: 1 } } })
  expect(await page.refusal(count())).toEqual({ code: 'FORBIDDEN' })

  const server = as((await createKey([ONCE])).secret)
  expect(await server.ask(count(', subject: "ann"'))).toEqual({ increment: { ...FIRST, value: 2 } })
  expect(await server.ask(takeBack(random))).toEqual({ uncount: null })
  expect(await server.ask(takeBack(`page:${random}`))).toEqual({ uncount: { value: 1 } })
  const anyone = as(undefined)
  expect(await anyone.ask(count(', subject: "ann"'))).toEqual({ increment: { ...AGAIN, value: 2 } })
  expect(await anyone.ask(count())).toEqual({ increment: { ...FIRST, value: 2 } })
  expect(await as((await createKey([{ scopes: ['READ'] }])).secret).refusal(read('ann'))).toEqual({
    code: 'FORBIDDEN',
  })
})

/** What servers and tokens counted and took for these subjects, and nobody may change from a page. */
const COUNTED_ELSEWHERE = ['ann', '3f9d2c41-77aa-4d5e']

/** A server that counted for subjects, with the state that a page must not change. */
async function startCounted() {
  const service = await startProtected()
  for (const subject of COUNTED_ELSEWHERE) {
    await service.admin.ask(count(`, subject: "${subject}"`))
    await service.admin.ask(next(`, subject: "${subject}"`))
  }
  const state = () =>
    Promise.all(
      COUNTED_ELSEWHERE.map(async (subject) => [
        await service.admin.ask(read(subject)),
        await service.admin.ask(numberOf(subject)),
      ]),
    )
  return { ...service, state }
}

const PLAIN = { scopes: ['ADD', 'NUMBER', 'READ'], namespace: 'blog' }

it.each<[string, object[]]>([
  ['ADD', [PLAIN]],
  ['WRITE', [{ ...PLAIN, scopes: ['WRITE', 'NUMBER', 'READ'] }]],
  ['ADMIN', [{ scopes: ['ADMIN'] }]],
  ['onceOnly and without it', [ONCE, PLAIN]],
])('subjects: that servers counted are out of reach of pages with %s', async (_, grants) => {
  const { as, admin, createKey, state } = await startCounted()
  const before = await state()
  const page = as((await createKey(grants, { origins: ['*'] })).secret)
  for (const subject of [...COUNTED_ELSEWHERE, 'nobody'])
    for (const call of [takeBack(subject), read(subject), numberOf(subject)]) {
      const { data, errors } = await page.send(call)
      expect([call, errors?.[0]?.extensions]).toEqual([call, { code: 'FORBIDDEN' }])
      expect(errors?.[0]?.message).toContain('With a key for pages')
      expect(errors?.[0]?.message).toContain('`onceOnly`')
      expect(Object.values(data ?? {}).flatMap((part) => Object.values(part ?? {}))).not.toContain(1)
    }
  expect(await state()).toEqual(before)
  // What it counts is its own.
  expect(await page.ask(count(', subject: "ann"'))).toEqual({ increment: { ...FIRST, value: 3 } })
  expect(await page.ask(count(', subject: "ann"'))).toEqual({ increment: { ...AGAIN, value: 3 } })
  expect(await page.ask(next(', subject: "ann"'))).toEqual({
    nextInSequence: { value: 3, alreadyIssued: false },
  })
  expect(await admin.ask(read('page:ann'))).toEqual({ counter: { changeOf: { value: 3 } } })
  expect(await admin.ask(numberOf('page:ann'))).toEqual({ sequence: { group: { numbersOf: { value: 3 } } } })
})

it('uncount: lets a page with onceOnly take back what pages counted, and nothing else', async () => {
  const { as, admin, createKey, state } = await startCounted()
  const before = await state()
  const page = as((await createKey([ONCE], { origins: ['*'] })).secret)
  const [, random = ''] = COUNTED_ELSEWHERE
  for (const subject of [random, `page:${random}`]) {
    expect(await page.ask(takeBack(subject))).toEqual({ uncount: null })
    expect(await page.ask(read(subject))).toEqual({ counter: { changeOf: null } })
    expect(await page.ask(numberOf(subject))).toEqual({ sequence: { group: { numbersOf: null } } })
  }
  expect(await page.ask(count(`, subject: "${random}"`))).toEqual({ increment: { ...FIRST, value: 3 } })
  expect(await page.ask(next(`, subject: "${random}"`))).toMatchObject({ nextInSequence: { value: 3 } })
  expect(await page.ask(read(random))).toEqual({ counter: { changeOf: { value: 3 } } })
  expect(await page.ask(numberOf(random))).toEqual({ sequence: { group: { numbersOf: { value: 3 } } } })
  // Another key for pages reaches the same: a page may get a new one.
  const renewed = as((await createKey([ONCE], { origins: ['*'] })).secret)
  expect(await renewed.ask(takeBack(random))).toEqual({ uncount: { value: 2 } })
  expect(await admin.ask(read(`page:${random}`))).toEqual({ counter: { changeOf: null } })
  expect(await state()).toEqual(before)
})

it('subjects: are named in errors as a page sent them, and its idempotency keys are replayed', async () => {
  const { as, createKey } = await startProtected()
  const once = as((await createKey([ONCE], { origins: ['*'] })).secret)
  const plain = as((await createKey([PLAIN], { origins: ['*'] })).secret)
  const long = 'a'.repeat(251)
  for (const call of [count(`, subject: "${long}"`), next(`, subject: "${long}"`)])
    for (const page of [once, plain]) {
      const { errors } = await page.send(call)
      expect(errors?.[0]).toMatchObject({
        message: 'Argument "subject" may have at most 250 characters.',
        extensions: { code: 'BAD_USER_INPUT', argument: 'subject', limit: 250 },
      })
    }
  for (const call of [takeBack(long), read(long), numberOf(long)])
    expect(await once.refusal(call)).toEqual({ code: 'BAD_USER_INPUT', argument: 'subject', limit: 250 })
  const { errors } = await plain.send(count(', subject: ""'))
  expect(errors?.[0]?.message).toBe('Argument "subject" must not be empty.')
  const longest = count(`, subject: "${'a'.repeat(250)}", idempotencyKey: "k"`)
  for (const _ of [1, 2, 3]) expect(await once.ask(longest)).toEqual({ increment: FIRST })
  expect(await once.refusal(count(`, subject: "${'b'.repeat(250)}", idempotencyKey: "k"`))).toEqual({
    code: 'IDEMPOTENCY_KEY_REUSED',
  })
})

const next = (named = '') =>
  `mutation { nextInSequence(namespace: "blog", name: "seat"${named}) { value alreadyIssued } }`
const numberOf = (subject: string) =>
  `{ sequence(namespace: "blog", name: "seat") { group { numbersOf(subject: "${subject}") { value } } } }`

it('nextInSequence: issues numbers to subjects by the same rules', async () => {
  const { settings, token } = await startIssuer()
  const { as, createKey } = await startProtected({ access: { tokens: settings } })
  const ann = as(await token({ sub: 'ann', nth: { grants: [ONCE] } }))
  // The first time by graphql-js, then compiled.
  for (const alreadyIssued of [false, true, true])
    expect(await ann.ask(next())).toEqual({ nextInSequence: { value: 1, alreadyIssued } })
  expect(await ann.ask(numberOf('ann'))).toEqual({ sequence: { group: { numbersOf: { value: 1 } } } })
  for (const call of [next(', subject: "bob"'), numberOf('bob'), next(', count: 2')])
    expect(await ann.refusal(call)).toMatchObject({ code: 'FORBIDDEN' })

  const plain = { ...ONCE, onceOnly: false, maxCount: 2 }
  const bob = as(await token({ sub: 'bob', nth: { grants: [plain] } }))
  expect(await bob.ask(next(', count: 2'))).toEqual({ nextInSequence: { value: 2, alreadyIssued: false } })
  expect(await bob.refusal(next(', subject: "ann"'))).toEqual({ code: 'FORBIDDEN' })
  expect(await bob.refusal(numberOf('ann'))).toEqual({ code: 'FORBIDDEN' })

  const both = as((await createKey([ONCE, plain])).secret)
  expect(await both.ask(next(', count: 2'))).toEqual({ nextInSequence: { value: 4, alreadyIssued: false } })
})

it('maxDelta: bounds the subjects that one request counts', async () => {
  const { as, createKey } = await startProtected()
  const { send } = as((await createKey([{ ...ONCE, maxDelta: 2 }])).secret)
  const fields = ['a', 'b', 'c'].map(
    (subject) => `${subject}: increment(namespace: "blog", name: "likes", subject: "${subject}") { value }`,
  )
  const { data, errors } = await send(`mutation { ${fields.join(' ')} }`)
  expect(data).toEqual({ a: { value: 1 }, b: { value: 2 }, c: null })
  expect(errors?.[0]?.extensions).toEqual({ code: 'FORBIDDEN', limit: 2 })
})

it.each([
  ['counter', 'increment', 'counter(name: "x") { changeOf(subject: "s") { value } }'],
  ['sequence', 'nextInSequence', 'sequence(name: "x") { group { numbersOf(subject: "s") { value } } }'],
])(
  'subjects: of a %s are known to a process that cached it before it had a salt',
  async (table, field, read) => {
    const target = await freshDatabase()
    const count = (subject = '') => `mutation { ${field}(name: "x"${subject}) { value } }`
    await (await startService({ target })).ask(count())
    // As an earlier version creates it.
    await query(target, `update ${table} set subject_salt = null`)
    const [first, second] = [await startService({ target }), await startService({ target })]
    await second.ask(count())
    expect(await first.ask(count(', subject: "s"'))).toEqual({ [field]: { value: 3 } })
    expect(JSON.stringify(await second.ask(`{ ${read} }`))).toContain('"value":3')
    expect(await second.ask(count(', subject: "s"'))).toEqual({ [field]: { value: 3 } })
  },
)
