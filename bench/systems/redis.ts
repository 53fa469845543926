// Redis as a service of its own, which writes every change to its disk before it answers.
import { Redis } from 'ioredis'
import type { Counting } from '../workloads.ts'
import { resolversOf, typeDefs } from './peer.ts'
import { place, serveMercurius } from './serve.ts'

const redis = new Redis({ ...place<{ port: number }>(), host: '127.0.0.1', enableAutoPipelining: true })

await serveMercurius({
  schema: typeDefs,
  resolvers: resolversOf({
    add: (kind, name) => redis.incr(keyOf(kind, name)),

    async read(kind, names) {
      const values = await redis.mget(names.map((name) => keyOf(kind, name)))
      return values.map(Number)
    },
  }),
})

function keyOf(kind: Counting['kind'], name: string): string {
  return `${kind}:${name}`
}
