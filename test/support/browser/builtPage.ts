import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { build, type InlineConfig } from 'vite'
import { onTestFinished } from 'vitest'
import { temporaryDirectory } from '../server/nthProcess.ts'

const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' }

/** Builds the page in a folder for a service, with React's checks for development, and serves it from an origin of its own. */
export async function serveBuilt(root: string, url: string, config: InlineConfig = {}): Promise<string> {
  const outDir = await temporaryDirectory()
  await build({
    ...config,
    root,
    logLevel: 'error',
    build: { outDir, emptyOutDir: true },
    define: {
      'import.meta.env.VITE_NTH_URL': JSON.stringify(`${url}/graphql`),
      'process.env.NODE_ENV': JSON.stringify('development'),
    },
  })
  const server = createServer(async (request, response) => {
    const path = request.url === '/' ? '/index.html' : (request.url ?? '')
    const text = await readFile(join(outDir, path), 'utf8').catch(() => undefined)
    // A browser asks for an icon, and complains if there is none.
    response.writeHead(text === undefined && path !== '/favicon.ico' ? 404 : 200, {
      'content-type': TYPES[extname(path)] ?? 'text/plain',
    })
    // Not the beginning of the service's address, as in 127.0.0.1:40001.
    response.end(text?.replaceAll(/http:\/\/127\.0\.0\.1:4000(?!\d)/g, url))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
