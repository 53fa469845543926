// Nth's own HTTP and GraphQL with nothing behind them: as fast as Nth could be on any database.
import { built } from '../built.ts'
import { openMemoryNth } from './memory.ts'
import { announce } from './serve.ts'

const { keepRequestsYoung } =
  await built<typeof import('../../src/operations/process.ts')>('operations/process.js')
const { listen } = await built<typeof import('../../src/http/server.ts')>('http/server.js')

keepRequestsYoung()
const nth = openMemoryNth()
const notices = { info: console.error, warn: console.error, fault: console.error }
const server = await listen({ host: '127.0.0.1', port: 0, allowedOrigins: [], nth, notices })
announce(server.url)
