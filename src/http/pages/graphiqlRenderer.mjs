// Runs in a thread of its own.
import { parentPort, workerData } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { renderGraphiQL } from '@graphql-yoga/render-graphiql'

const { options, style } = workerData
const body = Buffer.from(renderGraphiQL(options).replace('</head>', `${style}</head>`))
parentPort.postMessage({ body, gzipped: gzipSync(body) })
