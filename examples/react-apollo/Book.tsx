import { gql, type TypedDocumentNode } from '@apollo/client'
import { useMutation, useSubscription } from '@apollo/client/react'

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
  const [buy, { data: bought, error, loading }] = useMutation(BUY)
  // In the handler of the click: a key for each purchase, which a retry would repeat.
  const onClick = () => buy({ variables: { name, key: crypto.randomUUID() } }).catch(() => undefined)
  const sold = watched?.counters?.[0]
  const purchase = bought?.increment
  return (
    <main>
      <h1>{name}</h1>
      <p>{sold ? `${sold.value} sold` : 'Loading…'}</p>
      <button type="button" disabled={loading} onClick={onClick}>
        Buy
      </button>
      <p>
        <output>
          {error?.message ??
            (purchase && `You are buyer ${purchase.value}, number ${purchase.valueIn} this month.`)}
        </output>
      </p>
    </main>
  )
}
