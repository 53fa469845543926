import { action } from 'nth-counters/client'
import { useMemo } from 'react'
import { useMutation, useSubscription } from 'urql'
import { reasonOf } from '../nth.ts'
import { graphql } from './graphql.ts'

// gql.tada infers the types of results and variables from the schema.
const WATCH = graphql(`
  subscription Watch($name: String!) {
    counters(names: [$name], namespace: "booksales") { id revision value }
  }
`)

const BUY = graphql(`
  mutation Buy($name: String!, $key: String!) {
    increment(name: $name, namespace: "booksales", idempotencyKey: $key) { value valueIn(period: MONTH) }
  }
`)

export function Book({ name }: { name: string }) {
  const [{ data: watched }] = useSubscription({ query: WATCH, variables: { name } })
  const [{ data: bought, error, fetching }, buy] = useMutation(BUY)
  // Keeps the key of a purchase until there is a result: another click then repeats it.
  const purchase = useMemo(() => action(`buy ${name}`), [name])
  const onClick = async () => {
    const { data } = await buy({ name, key: purchase.key })
    if (data?.increment) purchase.done()
  }
  const sold = watched?.counters?.[0]
  const result = bought?.increment
  return (
    <main>
      <h1>{name}</h1>
      <p>{sold ? `${sold.value} sold` : 'Loading…'}</p>
      <button type="button" disabled={fetching} onClick={onClick}>
        Buy
      </button>
      <p>
        <output>
          {error
            ? reasonOf(error.networkError ?? error)
            : result && `You are buyer ${result.value}, number ${result.valueIn} this month.`}
        </output>
      </p>
    </main>
  )
}
