/** Operations for the environment of docs/clients.md. `npm run relay` compiles them. */
export const RELAY_OPERATIONS = `
import { commitMutation, fetchQuery, graphql } from 'relay-runtime'
import type { relayBuyMutation } from './__generated__/relayBuyMutation.graphql.ts'
import type { relaySoldQuery } from './__generated__/relaySoldQuery.graphql.ts'
import { environment } from './relay.ts'

export const BUY = graphql\`
  mutation relayBuyMutation($name: String!, $key: String!) {
    increment(name: $name, namespace: "booksales", idempotencyKey: $key) {
      value
      thisMonth: valueIn(period: MONTH)
      counter { id revision value thisMonth: valueIn(period: MONTH) }
    }
  }
\`

export const SOLD = graphql\`
  query relaySoldQuery($name: String!) {
    counter(name: $name, namespace: "booksales") { id revision value thisMonth: valueIn(period: MONTH) }
  }
\`

export function buy(name: string, key: string) {
  return new Promise((resolve, reject) => {
    commitMutation<relayBuyMutation>(environment, {
      mutation: BUY,
      variables: { name, key },
      onCompleted: ({ increment }, errors) => (errors ? reject(errors) : resolve(increment)),
      onError: (error: Error & { source?: { errors?: object[] } }) => reject(error.source?.errors ?? error),
    })
  })
}

export async function sold(name: string) {
  return (await fetchQuery<relaySoldQuery>(environment, SOLD, { name }).toPromise())?.counter
}
`
