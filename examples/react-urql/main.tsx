import { createRoot } from 'react-dom/client'
import { Client, fetchExchange, Provider } from 'urql'
import { nth, url } from '../nth.ts'
import { Book } from './Book.tsx'

const client = new Client({
  url,
  fetch: nth.fetch,
  fetchSubscriptions: true,
  preferGetMethod: false,
  exchanges: [fetchExchange],
})

createRoot(document.querySelector('#root') as Element).render(
  <Provider value={client}>
    <Book name="Bulldozer" />
  </Provider>,
)
