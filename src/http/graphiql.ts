import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { PAGES, pageOf, type StaticPage } from './pages.ts'

/** Prepared tabs in GraphiQL: operations to run in order, on the books of the shop. In their file, empty lines separate them. */
export const tabs: string[] = readFileSync(new URL('graphiql/tabs.graphql', PAGES), 'utf8')
  .trim()
  .split('\n\n')

let page: Promise<StaticPage> | undefined

/** GraphiQL as one page without external URLs. It has 9 MB of text, so it is rendered once and sent compressed. */
export function graphiqlPage(): Promise<StaticPage> {
  page ??= makePage().catch((error) => {
    // The next request tries again.
    page = undefined
    throw error
  })
  return page
}

/** In a thread of its own: loading the renderer takes 140 ms, and rendering 50, which would hold up other requests. */
async function makePage(): Promise<StaticPage> {
  const options = { title: 'GraphiQL · Nth', defaultTabs: tabs.map((query) => ({ query })) }
  const worker = new Worker(new URL('graphiql/renderer.mjs', PAGES), { workerData: options })
  const [{ body, gzipped }] = await once(worker, 'message')
  return pageOf({
    type: 'text/html; charset=utf-8',
    body: Buffer.from(body),
    gzipped: Buffer.from(gzipped),
    // Its scripts are in the page. In a frame of another page, a click could run what that page has put into its URL.
    headers: { 'content-security-policy': "frame-ancestors 'none'" },
  })
}
