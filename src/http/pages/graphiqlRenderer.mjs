// Runs in a thread of its own.
import { parentPort, workerData } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { renderGraphiQL } from '@graphql-yoga/render-graphiql'

// The tabs are animated when the page opens, and an unused tab moves away from the pointer at the first click, which is
// lost. The title would wrap beside so many tabs, and overflow.
const STYLE = `<style>
.graphiql-tab { transform: none !important; }
.graphiql-logo { white-space: nowrap; }
</style>`

const body = Buffer.from(renderGraphiQL(workerData).replace('</head>', `${STYLE}</head>`))
parentPort.postMessage({ body, gzipped: gzipSync(body) })
