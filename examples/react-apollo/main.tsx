import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from '@apollo/client'
import { GraphQLWsLink } from '@apollo/client/link/subscriptions'
import { ApolloProvider } from '@apollo/client/react'
import { OperationTypeNode } from 'graphql'
import { createClient } from 'graphql-ws'
import { createRoot } from 'react-dom/client'
import { nth, url } from '../nth.ts'
import { Book } from './Book.tsx'

// Connects again whenever its connection breaks, after pauses that grow to 15 seconds.
const socket = createClient({
  url: url.replace('http', 'ws'),
  shouldRetry: () => true,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: (failures) =>
    new Promise((done) => setTimeout(done, Math.random() * Math.min(2 ** failures, 15) * 1000)),
})

const client = new ApolloClient({
  cache: new InMemoryCache(),
  link: ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    new GraphQLWsLink(socket),
    new HttpLink({ uri: url, fetch: nth.fetch }),
  ),
})

createRoot(document.querySelector('#root') as Element).render(
  <ApolloProvider client={client}>
    <Book name="Bulldozer" />
  </ApolloProvider>,
)
