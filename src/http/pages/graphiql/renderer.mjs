// Runs in a thread of its own.
import { readFileSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { renderGraphiQL } from '@graphql-yoga/render-graphiql'

// The tabs are animated when the page opens, and an unused tab moves away from the pointer at the first click, which is
// lost. The title would wrap beside so many tabs, and overflow. The field for the key is above everything else.
const STYLE = `<style>
.graphiql-tab { transform: none !important; }
.graphiql-logo { white-space: nowrap; }
body { display: flex; flex-direction: column; height: 100vh; }
#root { flex: 1; min-height: 0; }
#root > *, .graphiql-container { height: 100% !important; }
.nth-key { display: flex; justify-content: flex-end; padding: 6px 16px 0; background: #fff; color: #3b4b68; font: 14px system-ui; }
.nth-key input { width: 24em; max-width: 60vw; margin-left: .5em; padding: 2px 6px; border: 1px solid #8899aa; border-radius: 4px; background: transparent; color: inherit; font: inherit; }
@media (prefers-color-scheme: dark) { .nth-key { background: #212a3b; color: #fff; } }
</style>`

const field = readFileSync(new URL('key.html', import.meta.url), 'utf8')
const page = renderGraphiQL(workerData)
const body = Buffer.from(
  page
    .replace('</head>', `${STYLE}</head>`)
    .replace('<body id="body" class="no-focus-outline">', (start) => start + field),
)
parentPort.postMessage({ body, gzipped: gzipSync(body) })
