import { expect, it } from 'vitest'
import { answersOf } from '../support/client/client.ts'
import { startProtected } from '../support/client/keys.ts'
import { query } from '../support/database/database.ts'

const HOLD = (delta = 1, rest = '', name = 'c') =>
  `mutation { hold(changes: [{ name: "${name}", delta: ${delta} }] ${rest}) { id state expiresAt } }`
const confirming = (id: string, rest = '') => `mutation { confirmHold(id: "${id}" ${rest}) { value } }`
const releasing = (id: string) => `mutation { releaseHold(id: "${id}") { state } }`

const PAGE = { origins: ['https://shop.example'] }
const FORBIDDEN = { code: 'FORBIDDEN' }

it('hold: takes up to maxDelta with HOLD, any amount with WRITE, nothing with ADD, and for no subject', async () => {
  const { as, createKey } = await startProtected()
  const refusal = async (grant: object, text: string) => as((await createKey([grant])).secret).refusal(text)
  const holder = as((await createKey([{ scopes: ['HOLD'], maxDelta: 3 }])).secret)
  expect((await holder.ask(HOLD(3))).hold.state).toBe('RESERVED')
  expect(await holder.refusal(HOLD(4))).toEqual({ ...FORBIDDEN, limit: 3, index: 0 })
  const twice = 'mutation { hold(changes: [{ name: "c", delta: 2 }, { name: "c", delta: 2 }]) { id } }'
  expect(await holder.refusal(twice)).toEqual({ ...FORBIDDEN, limit: 3, index: 1 })
  expect(await holder.refusal(HOLD(-1))).toMatchObject(FORBIDDEN)
  expect(await refusal({ scopes: ['ADD'] }, HOLD())).toMatchObject(FORBIDDEN)
  expect(await refusal({ scopes: ['HOLD'], onceOnly: true }, HOLD())).toMatchObject(FORBIDDEN)
  const writer = as((await createKey([{ scopes: ['WRITE'] }])).secret)
  for (const delta of [5, -5]) expect((await writer.ask(HOLD(delta))).hold.state).toBe('RESERVED')
})

it('confirmHold: with ADD, counts what is held, less, and more up to maxDelta', async () => {
  const { admin, as, createKey } = await startProtected()
  const hold = async (delta: number) => (await admin.ask(HOLD(delta))).hold.id
  const adder = as((await createKey([{ scopes: ['ADD'], maxDelta: 4 }])).secret)
  expect(await adder.ask(confirming(await hold(9)))).toEqual({ confirmHold: [{ value: 9 }] })
  const other = async (held: number, delta: number) =>
    confirming(await hold(held), `changes: [{ name: "c", delta: ${delta} }]`)
  expect(await adder.ask(await other(9, 9))).toEqual({ confirmHold: [{ value: 18 }] })
  expect(await adder.ask(await other(9, 0))).toEqual({ confirmHold: [{ value: 18 }] })
  expect(await adder.ask(await other(2, 4))).toEqual({ confirmHold: [{ value: 22 }] })
  expect(await adder.refusal(await other(2, 5))).toEqual({ ...FORBIDDEN, limit: 4, index: 0 })
  expect(await adder.refusal(await other(-3, -2))).toMatchObject(FORBIDDEN)
  const holder = as((await createKey([{ scopes: ['HOLD'] }])).secret)
  expect(await holder.refusal(confirming(await hold(1)))).toMatchObject(FORBIDDEN)
})

it.each(['HOLD', 'WRITE', 'ADMIN'])(
  'hold: lasts 900 seconds at most for pages with %s, extensions included, and they never confirm',
  async (scope) => {
    const { admin, as, createKey, target } = await startProtected()
    const { secret } = await createKey([{ scopes: [scope] }], PAGE)
    const { send } = as(secret)
    const page = answersOf((text: string) => send(text, {}, { origin: 'https://shop.example' }))
    const limit = { ...FORBIDDEN, limit: 900 }
    expect(await page.refusal(HOLD(1, 'ttlSeconds: 901'))).toMatchObject(limit)
    const { id, expiresAt } = (await page.ask(HOLD(1, 'ttlSeconds: 600'))).hold
    const extending = (seconds: number) =>
      `mutation { extendHold(id: "${id}", ttlSeconds: ${seconds}) { expiresAt } }`
    expect(await page.refusal(extending(901))).toMatchObject(limit)
    for (const caller of [page, admin]) {
      const { extendHold } = await caller.ask(extending(caller === page ? 900 : 86_400))
      expect(Date.parse(extendHold.expiresAt) - Date.parse(expiresAt)).toBe(300_000)
    }
    expect(await page.refusal(confirming(id))).toMatchObject(FORBIDDEN)
    expect(await page.ask(releasing(id))).toEqual({ releaseHold: { state: 'RELEASED' } })
    expect(await query(target, 'select value from counter_value')).toEqual([{ value: 0 }])
  },
)

it('holds: are reached only with the right on all of their counters', async () => {
  const { admin, as, createKey } = await startProtected()
  const { id } = (await admin.ask('mutation { hold(changes: [{ name: "a" }, { name: "b" }]) { id } }')).hold
  const grant = { scopes: ['READ', 'ADD', 'HOLD'], maxDelta: 10 }
  const some = as((await createKey([{ ...grant, names: ['a'] }])).secret)
  const extending = `mutation { extendHold(id: "${id}") { state } }`
  for (const text of [confirming(id), releasing(id), extending])
    expect(await some.refusal(text)).toEqual({ code: 'NOT_FOUND' })
  const node = `{ node(id: "${id}") { ... on Hold { state deltas { delta counter { name } } } } }`
  expect(await some.ask(node)).toEqual({ node: null })
  const all = as((await createKey([{ ...grant, names: ['a', 'b'] }])).secret)
  const deltas = ['a', 'b'].map((name) => ({ delta: 1, counter: { name } }))
  expect(await all.ask(node)).toEqual({ node: { state: 'RESERVED', deltas } })
  expect(await all.ask(extending)).toEqual({ extendHold: { state: 'RESERVED' } })
  // Others' holds are known to WRITE only.
  expect(await all.refusal('{ counter(name: "a") { holds { nodes { id } } } }')).toMatchObject(FORBIDDEN)
  const reader = as((await createKey([{ scopes: ['READ'] }])).secret)
  expect(await reader.ask('{ counter(name: "a") { held } }')).toEqual({ counter: { held: 1 } })
  expect(await reader.refusal(node)).toMatchObject(FORBIDDEN)
})

it('maxDelta: bounds what one request holds as a whole, apart from what it adds', async () => {
  const { as, createKey } = await startProtected()
  const { send } = as((await createKey([{ scopes: ['ADD', 'HOLD'], maxDelta: 3 }])).secret)
  const held = (delta: number) => `hold(changes: [{ name: "c", delta: ${delta} }]) { state }`
  const added = 'incrementBy(name: "c", delta: 3) { value }'
  const { data, errors } = await send(`mutation { a: ${held(2)} b: ${held(2)} c: ${added} d: ${held(1)} }`)
  expect(data).toMatchObject({ a: { state: 'RESERVED' }, b: null, c: { value: 3 }, d: { state: 'RESERVED' } })
  expect(errors?.map(({ path, extensions }) => [path, extensions])).toEqual([
    [['b'], { ...FORBIDDEN, limit: 3, index: 0 }],
  ])
})

it('HOLD: is stored so that earlier versions, whose schema lacks it, list keys without it', async () => {
  const { admin, createKey, target } = await startProtected()
  await createKey([{ scopes: ['READ', 'HOLD'] }])
  const [stored] = await query(target, 'select grants from api_key')
  expect(JSON.parse(String(stored?.grants))[0]).toMatchObject({ scopes: ['READ'], holds: true })
  const { apiKeys } = await admin.ask('{ apiKeys { nodes { grants { scopes } } } }')
  expect(apiKeys.nodes).toEqual([{ grants: [{ scopes: ['READ', 'HOLD'] }] }])
  // Nor do they read it of a grant whose other scopes they must not use.
  await createKey([{ scopes: ['ADD', 'HOLD'], onceOnly: true }])
  const { nodes } = (await admin.ask('{ apiKeys { nodes { grants { scopes onceOnly } } } }')).apiKeys
  const [once] = await query(target, 'select grants from api_key order by id desc limit 1')
  expect(JSON.parse(String(once?.grants))[0]).toMatchObject({ scopes: [], onceScopes: ['ADD'], holds: true })
  expect(nodes).toContainEqual({ grants: [{ scopes: ['ADD', 'HOLD'], onceOnly: true }] })
})
