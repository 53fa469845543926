// @module-tag slow
import { graphql } from 'graphql'
import { expect, it } from 'vitest'
import { gatewayTo } from '../../examples/gateway/gateway.js'
import { startProtected } from '../support/client/keys.ts'

it('gateway: numbers a buyer, beside the fields of another service', async () => {
  const { url, createKey } = await startProtected()
  const { secret } = await createKey([{ scopes: ['READ', 'ADD'], namespace: 'booksales' }])
  const schema = await gatewayTo(url, secret)
  const BUY = `mutation ($key: String!) {
    increment(name: "Bulldozer", namespace: "booksales", idempotencyKey: $key) {
      value thisMonth: valueIn(period: MONTH) replayed counter { id value }
    }
  }`
  const buy = async (key: string) =>
    (await graphql({ schema, source: BUY, variableValues: { key }, contextValue: {} })).data?.increment
  expect(await buy('first')).toMatchObject({ value: 1, thisMonth: 1, replayed: false, counter: { value: 1 } })
  expect(await buy('second')).toMatchObject({ value: 2, thisMonth: 2 })
  expect(await buy('second')).toMatchObject({ value: 2, replayed: true })
  const { data, errors } = await graphql({
    schema,
    source: '{ books { title sold { value } } viewer { kind } }',
    contextValue: {},
  })
  expect(errors).toBeUndefined()
  expect(data).toEqual({
    books: [
      { title: 'Bulldozer', sold: { value: 2 } },
      { title: 'Red Horse Hill', sold: { value: 0 } },
    ],
    viewer: { kind: 'KEY' },
  })
  const refused = await graphql({
    schema,
    source: 'mutation { increment(name: "a", namespace: "other") { value } }',
    contextValue: {},
  })
  expect(refused.errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' }, path: ['increment'] }])
})
