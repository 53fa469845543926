import { useCount } from 'nth-counters/react'
import { nth } from '../nth.ts'

export function Book({ name }: { name: string }) {
  const { value, valueIn, mine, increment, status, error } = useCount({
    name,
    namespace: 'booksales',
    period: 'MONTH',
    client: nth,
  })
  return (
    <li>
      <h2>{name}</h2>
      <p>{value === null ? 'Loading…' : `${value} sold`}</p>
      <p>{valueIn !== null && `${valueIn} this month`}</p>
      <button type="button" disabled={status === 'counting'} onClick={increment}>
        Buy
      </button>
      <p>
        <output>
          {status === 'doubtful'
            ? 'It may or may not have been bought. Try again.'
            : (error?.message ?? (mine !== null && `You are buyer ${mine}.`))}
        </output>
      </p>
    </li>
  )
}
