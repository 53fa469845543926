import { createRoot } from 'react-dom/client'
import { RelayEnvironmentProvider } from 'react-relay'
import {
  Environment,
  type GraphQLSingularResponse,
  Network,
  Observable,
  type PayloadData,
  RecordSource,
  Store,
} from 'relay-runtime'
import { nth, url } from '../nth.ts'
import { Book } from './Book.tsx'

const environment = new Environment({
  store: new Store(new RecordSource()),
  network: Network.create(
    async ({ text }, variables) => {
      const response = await nth.fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: text, variables }),
      })
      return response.json()
    },
    ({ text }, variables) =>
      Observable.create<GraphQLSingularResponse>(
        (sink) =>
          nth.subscribe<PayloadData>(text ?? '', variables, {
            onData: (data) => sink.next({ data }),
            // After others it tries again.
            onError: (error) => error.retryable || sink.error(error),
          }).stop,
      ),
  ),
})

createRoot(document.querySelector('#root') as Element).render(
  <RelayEnvironmentProvider environment={environment}>
    <Book name="Bulldozer" />
  </RelayEnvironmentProvider>,
)
