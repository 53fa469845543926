import { useState } from 'react'
import { nth } from '../nth.ts'
import { useLive } from './useLive.ts'

interface Watched {
  counters: ({ value: number } | null)[] | null
}

const WATCH = `subscription ($name: String!) {
  counters(names: [$name], namespace: "booksales") { id revision value }
}`

interface Bought {
  increment: { value: number; valueIn: number }
}

const BUY = `mutation ($name: String!) {
  increment(name: $name, namespace: "booksales") { value valueIn(period: MONTH) }
}`

export function Book({ name }: { name: string }) {
  const sold = useLive<Watched>(WATCH, { name })?.counters?.[0]
  const [message, setMessage] = useState('')
  const [isBuying, setIsBuying] = useState(false)

  async function buy() {
    setIsBuying(true)
    try {
      // Counts once, also if the answer is lost: the name keeps the purchase until there is a result.
      const { increment } = await nth.mutate<Bought>(BUY, { name }, { remember: `buy ${name}` })
      setMessage(`You are buyer ${increment.value}, number ${increment.valueIn} this month.`)
    } catch (error) {
      setMessage(error instanceof Error ? error.message : String(error))
    }
    setIsBuying(false)
  }

  return (
    <main>
      <h1>{name}</h1>
      <p>{sold ? `${sold.value} sold` : 'Loading…'}</p>
      <button type="button" disabled={isBuying} onClick={buy}>
        Buy
      </button>
      <p>
        <output>{message}</output>
      </p>
    </main>
  )
}
