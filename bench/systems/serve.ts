import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { createSchema, createYoga } from 'graphql-yoga'
import mercurius, { type MercuriusOptions } from 'mercurius'
import { type Rows, resolversOf, typeDefs } from './peer.ts'

const HOST = '127.0.0.1'

/**
 * Serves rows by plain Yoga. Its limit of a request's size is off, because that copies every request and
 * would cost it more than half of its speed; otherwise as it comes.
 */
export async function serveYoga(rows: Rows): Promise<void> {
  const yoga = createYoga({
    schema: createSchema({ typeDefs, resolvers: resolversOf(rows) }),
    maxRequestBodySize: false,
    graphiql: false,
    landingPage: false,
    logging: false,
  })
  const server = createServer(yoga)
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve))
  // It listens at a port, not at the path of a socket.
  announce(`http://${HOST}:${(server.address() as AddressInfo).port}`)
}

/** Serves a schema by Fastify and mercurius, which compiles an operation that it has seen once. */
export async function serveMercurius(options: Pick<MercuriusOptions, 'schema' | 'resolvers'>): Promise<void> {
  const app = fastify({ logger: false })
  await app.register(mercurius, { ...options, jit: 1 } as MercuriusOptions)
  announce(await app.listen({ host: HOST, port: 0 }))
}

/** Tells the benchmark where to reach this process. */
export function announce(url: string): void {
  console.log(`Serving at ${url}`)
}

/** What the benchmark has told this process about where its rows are to be kept. */
export function place<Place>(): Place {
  return JSON.parse(process.argv[2] ?? '{}')
}
