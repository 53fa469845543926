import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, ServerError } from '@apollo/client'
import { RetryLink } from '@apollo/client/link/retry'
import { ApolloProvider } from '@apollo/client/react'
import { OperationTypeNode } from 'graphql'
import { createRoot } from 'react-dom/client'
import { nth, url } from '../nth.ts'
import { Book } from './Book.tsx'

// Subscribes again when a stream breaks, and not when the server refuses it.
const retryLink = new RetryLink({
  delay: { max: 15_000 },
  attempts: (_, { operationType }, error) =>
    operationType === OperationTypeNode.SUBSCRIPTION && !(ServerError.is(error) && error.statusCode < 429),
})

const client = new ApolloClient({
  cache: new InMemoryCache(),
  link: ApolloLink.from([retryLink, new HttpLink({ uri: url, fetch: nth.fetch })]),
})

createRoot(document.querySelector('#root') as Element).render(
  <ApolloProvider client={client}>
    <Book name="Bulldozer" />
  </ApolloProvider>,
)
