import { ApolloClient, gql, HttpLink, InMemoryCache } from '@apollo/client/core'
import { expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/server/service.ts'

it('Apollo Client: treats two mutations with the same arguments as one, unless their keys differ', async () => {
  const { url } = await startService()
  const link = new HttpLink({ uri: `${url}/graphql`, fetch })
  const client = new ApolloClient({ cache: new InMemoryCache(), link })
  onTestFinished(() => client.stop())
  const numbers = async (...fields: string[]) =>
    Object.values(
      (
        await client.mutate<Record<string, { value: number }>>({
          mutation: gql(
            `mutation { ${fields.map((field, index) => `a${index}: ${field} { value }`).join(' ')} }`,
          ),
        })
      ).data ?? {},
    ).map(({ value }) => value)
  const same = 'increment(name: "c")'
  expect(await numbers(same, same)).toEqual([2, 2])
  expect(
    await numbers('increment(name: "c", idempotencyKey: "a")', 'increment(name: "c", idempotencyKey: "b")'),
  ).toEqual([3, 4])
})
