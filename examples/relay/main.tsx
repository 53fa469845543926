import { createRoot } from 'react-dom/client'
import { RelayEnvironmentProvider } from 'react-relay'
import { Environment, type GraphQLResponse, Network, Observable, RecordSource, Store } from 'relay-runtime'
import { stream, url } from '../stream.ts'
import { Book } from './Book.tsx'

const environment = new Environment({
  store: new Store(new RecordSource()),
  network: Network.create(
    async ({ text }, variables) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: text, variables }),
      })
      return response.json()
    },
    ({ text }, variables) =>
      Observable.create<GraphQLResponse>((sink) =>
        stream.subscribe(
          { query: text ?? '', variables },
          {
            // The same form, with other types for what is in it.
            next: (result) => sink.next(result as GraphQLResponse),
            error: (error) => sink.error(error as Error),
            complete: () => sink.complete(),
          },
        ),
      ),
  ),
})

createRoot(document.querySelector('#root') as Element).render(
  <RelayEnvironmentProvider environment={environment}>
    <Book name="Bulldozer" />
  </RelayEnvironmentProvider>,
)
