import { gql, type TypedDocumentNode } from '@apollo/client'
import { useMutation, useSubscription } from '@apollo/client/react'
import { action } from 'nth-counters/client'
import { useMemo } from 'react'
import { reasonOf } from '../nth.ts'

interface Watched {
  counters: ({ value: number } | null)[] | null
}

const WATCH: TypedDocumentNode<Watched, { name: string }> = gql`
  subscription Watch($name: String!) {
    counters(names: [$name], namespace: "booksales") { id revision value }
  }
`

interface Bought {
  increment: { value: number; valueIn: number } | null
}

const BUY: TypedDocumentNode<Bought, { name: string; key: string }> = gql`
  mutation Buy($name: String!, $key: String!) {
    increment(name: $name, namespace: "booksales", idempotencyKey: $key) { value valueIn(period: MONTH) }
  }
`

export function Book({ name }: { name: string }) {
  const { data: watched } = useSubscription(WATCH, { variables: { name } })
  // Keeps the key of a purchase until there is a result: another click then repeats it.
  const purchase = useMemo(() => action(`buy ${name}`), [name])
  const [buy, { data: bought, error, loading }] = useMutation(BUY, { onCompleted: purchase.done })
  const onClick = () => buy({ variables: { name, key: purchase.key } }).catch(() => undefined)
  const sold = watched?.counters?.[0]
  const result = bought?.increment
  return (
    <main>
      <h1>{name}</h1>
      <p>{sold ? `${sold.value} sold` : 'Loading…'}</p>
      <button type="button" disabled={loading} onClick={onClick}>
        Buy
      </button>
      <p>
        <output>
          {error
            ? reasonOf(error)
            : result && `You are buyer ${result.value}, number ${result.valueIn} this month.`}
        </output>
      </p>
    </main>
  )
}
