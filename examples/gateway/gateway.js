// A gateway that puts Nth's fields beside those of a shop, with Yoga and Schema Stitching. Run it with
//   NTH_URL=http://127.0.0.1:4000 node examples/gateway/gateway.js
import { createServer } from 'node:http'
import { batchDelegateToSchema } from '@graphql-tools/batch-delegate'
import { stitchSchemas } from '@graphql-tools/stitch'
import { buildSchema, print } from 'graphql'
import { createSchema, createYoga } from 'graphql-yoga'

const BOOKS = [{ title: 'Bulldozer' }, { title: 'Red Horse Hill' }]

/** The shop's own schema; it may also be that of another server, as Nth's is. */
const shop = createSchema({
  typeDefs: 'type Query { books: [Book!]! } type Book { title: String! }',
  resolvers: { Query: { books: () => BOOKS } },
})

/**
 * The schema of both: `books { title sold { value } }`, and all fields of Nth.
 *
 * @param {string} url of Nth
 * @param {string} [key] an API key for what callers of the gateway may do
 */
export async function gatewayTo(url, key) {
  const credentials = key ? { authorization: `Bearer ${key}` } : {}
  const nth = {
    schema: buildSchema(await (await fetch(`${url}/schema.graphql`)).text()),
    async executor({ document, variables }) {
      const headers = { 'content-type': 'application/json', ...credentials }
      const body = JSON.stringify({ query: print(document), variables })
      return (await fetch(`${url}/graphql`, { method: 'POST', headers, body })).json()
    },
  }
  return stitchSchemas({
    subschemas: [shop, nth],
    typeDefs: 'extend type Book { sold: Counter }',
    resolvers: {
      Book: {
        sold: {
          selectionSet: '{ title }',
          // One request for all books of a list.
          resolve: ({ title }, _, context, info) =>
            batchDelegateToSchema({
              schema: nth,
              fieldName: 'counters',
              key: title,
              argsFromKeys: (names) => ({ names, namespace: 'booksales' }),
              context,
              info,
            }),
        },
      },
    },
  })
}

if (process.argv[1] === import.meta.filename) {
  const { NTH_URL = 'http://127.0.0.1:4000', NTH_KEY, PORT = '4001' } = process.env
  const server = createServer(createYoga({ schema: await gatewayTo(NTH_URL, NTH_KEY) }))
  server.listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${PORT}/graphql`))
}
