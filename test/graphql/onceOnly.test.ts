import { expect, it } from 'vitest'
import { startProtected } from '../support/client/keys.ts'

const ONCE = { scopes: ['ADD', 'NUMBER', 'READ'], namespace: 'blog', onceOnly: true }

it('refuses changes for nobody under a grant with onceOnly, and says what to call', async () => {
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

it('allows what another grant of the same key allows', async () => {
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

it('refuses a grant of WRITE with onceOnly, which would do nothing', async () => {
  const { admin } = await startProtected()
  const create =
    'mutation { createApiKey(label: "x", grants: [{ scopes: [WRITE], onceOnly: true }]) { secret } }'
  expect(await admin.refusal(create)).toMatchObject({
    code: 'BAD_USER_INPUT',
    argument: 'grants.0.onceOnly',
  })
})
