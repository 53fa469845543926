import { createRoot } from 'react-dom/client'
import { Client, fetchExchange, Provider, subscriptionExchange } from 'urql'
import { stream, url } from '../stream.ts'
import { Book } from './Book.tsx'

const client = new Client({
  url,
  preferGetMethod: false,
  exchanges: [
    fetchExchange,
    subscriptionExchange({
      forwardSubscription: ({ query = '', variables }) => ({
        subscribe: (sink) => ({
          unsubscribe: stream.subscribe<Record<string, unknown>>(
            { query, ...(variables && { variables }) },
            {
              next: ({ data, errors }) =>
                sink.next({ ...(data && { data }), ...(errors && { errors: [...errors] }) }),
              error: (error) => sink.error(error),
              complete: () => sink.complete(),
            },
          ),
        }),
      }),
    }),
  ],
})

createRoot(document.querySelector('#root') as Element).render(
  <Provider value={client}>
    <Book name="Bulldozer" />
  </Provider>,
)
