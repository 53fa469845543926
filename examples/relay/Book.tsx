import { action } from 'nth-counters/client'
import { useMemo, useState } from 'react'
import { graphql, useMutation, useSubscription } from 'react-relay'
import { reasonOf } from '../nth.ts'
import type { BookBuyMutation } from './__generated__/BookBuyMutation.graphql.ts'
import type { BookWatchSubscription } from './__generated__/BookWatchSubscription.graphql.ts'

const WATCH = graphql`
  subscription BookWatchSubscription($name: String!) {
    counters(names: [$name], namespace: "booksales") { id value }
  }
`

const BUY = graphql`
  mutation BookBuyMutation($name: String!, $key: String!) {
    increment(name: $name, namespace: "booksales", idempotencyKey: $key) { value valueIn(period: MONTH) }
  }
`

export function Book({ name }: { name: string }) {
  const [sold, setSold] = useState<number>()
  const [message, setMessage] = useState('')
  const [commit, isInFlight] = useMutation<BookBuyMutation>(BUY)
  const watch = useMemo(
    () => ({
      subscription: WATCH,
      variables: { name },
      onNext: (data: BookWatchSubscription['response'] | null | undefined) =>
        setSold(data?.counters?.[0]?.value),
    }),
    [name],
  )
  useSubscription<BookWatchSubscription>(watch)

  // Keeps the key of a purchase until there is a result: another click then repeats it.
  const purchase = useMemo(() => action(`buy ${name}`), [name])
  const buy = () =>
    commit({
      variables: { name, key: purchase.key },
      onCompleted({ increment }, errors) {
        if (!increment) return setMessage(errors?.[0]?.message ?? '')
        purchase.done()
        setMessage(`You are buyer ${increment.value}, number ${increment.valueIn} this month.`)
      },
      onError: (error) => setMessage(reasonOf(error)),
    })

  return (
    <main>
      <h1>{name}</h1>
      <p>{sold === undefined ? 'Loading…' : `${sold} sold`}</p>
      <button type="button" disabled={isInFlight} onClick={buy}>
        Buy
      </button>
      <p>
        <output>{message}</output>
      </p>
    </main>
  )
}
