import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, Observable } from '@apollo/client'
import { ApolloProvider } from '@apollo/client/react'
import { OperationTypeNode, print } from 'graphql'
import { createRoot } from 'react-dom/client'
import { stream, url } from '../stream.ts'
import { Book } from './Book.tsx'

const streamLink = new ApolloLink(
  ({ query, variables }) =>
    new Observable((sink) =>
      stream.subscribe<Record<string, unknown>>(
        { query: print(query), variables },
        {
          next: ({ data, errors }) => sink.next({ data: data ?? null, ...(errors && { errors }) }),
          error: (error) => sink.error(error),
          complete: () => sink.complete(),
        },
      ),
    ),
)

const client = new ApolloClient({
  cache: new InMemoryCache(),
  link: ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    streamLink,
    new HttpLink({ uri: url }),
  ),
})

createRoot(document.querySelector('#root') as Element).render(
  <ApolloProvider client={client}>
    <Book name="Bulldozer" />
  </ApolloProvider>,
)
