def sub(p, *pairs):
    s=open(p).read()
    for a,b in pairs:
        if a not in s: print('MISSING in',p,':',a[:80])
        s=s.replace(a,b,1)
    open(p,'w').write(s)
sub('src/process/workers.ts',
("""interface WorkersOptions {
  count: number
  host: string
  /** The port they share; 0: any free port. */
  port: number
  /** Called when a worker ended by itself. */
  say: (message: string) => void
}

""",""),
("""openWorkers({ count, host, port, say }: WorkersOptions) {""","""openWorkers({ workers: count, host, port }: Config, say: (message: string) => void) {"""),
(""" * @throws the system's""",""" * @param say called when a worker ended by itself
 * @throws the system's"""),
("""import { forkWorker""","""import type { Config } from './config.ts'
import { forkWorker"""),
)
sub('src/app.ts',
("""  const { host, port, workers } = config
""","""  const { host, workers } = config
"""),
("""    const front =
      workers > 1 ? await openWorkers({ count: workers, host, port, say }) : await openServer(options)
""","""    const front = workers > 1 ? await openWorkers(config, say) : await openServer(options)
"""))
sub('src/process/workerProcess.ts',
("""  let last: unknown
""","""  let last: { close?(): void } | undefined
"""),
("""      if (args[1]) last = args[1]
""","""      // A handle of any kind; those of connections can be closed.
      if (args[1]) last = args[1] as { close?(): void }
"""),
("""  worker.on('exit', () => isClosable(last) && last.close())
}

function isClosable(handle: unknown): handle is { close(): void } {
  return typeof handle === 'object' && handle !== null && 'close' in handle
}
""","""  worker.on('exit', () => last?.close?.())
}
"""))
# slow readers into connections
sub('src/http/connections/connections.ts',
("""interface ConnectionsOptions {
  /** Maximum memory of all requests in flight, in bytes of the heap. */
  maxBytes: number
""","""interface ConnectionsOptions {
  /** Maximum memory of all requests in flight, in bytes of the heap. */
  maxBytes: number
  /** Maximum unread data on all connections together, in bytes. */
  maxUnreadBytes: number
  /** How long a client may read nothing of its response, in milliseconds. */
  stallMs: number
"""),
("""const LARGE_BYTES = 1_000_000
""","""const LARGE_BYTES = 1_000_000

const CHECK_MS = 1000
"""),
(""" * socket (64 kB). They are dropped when the client disconnects.
 */
export function openConnections(server: Server, { maxBytes, handle, onFault }: ConnectionsOptions) {
""",""" * socket (64 kB). They are dropped when the client disconnects.
 *
 * Connections whose clients don't read their responses are closed: those that read nothing for a while, and those with
 * the most unread data when the total is too large. A connection has at most one unread response.
 */
export function openConnections(server: Server, options: ConnectionsOptions) {
  const { maxBytes, maxUnreadBytes, stallMs, handle, onFault } = options
"""),
("""  server.on('connection', ""","""  server.on('listening', () => {
    // Periodically, because nearly every response is read at once: a check of each would cost every request.
    const timer = setInterval(closeSlowReaders, Math.min(CHECK_MS, stallMs / 4)).unref()
    server.on('close', () => clearInterval(timer))
  })

  server.on('connection', """),
)
s=open('src/http/connections/connections.ts').read()
i=s.index('  return {\n    sockets')
s=s[:i]+'''  function closeSlowReaders(): void {
    const unread: Socket[] = []
    for (const [socket, { current }] of connections) {
      if (socket.writableLength > 0) {
        unread.push(socket)
        if (current?.response.writableEnded) release(current)
        // Node restarts the timeout whenever data is read, and closes the connection when it expires.
        if (socket.timeout !== stallMs) socket.setTimeout(stallMs)
      } else if (socket.timeout === stallMs) {
        // Its response was read, and another request was started.
        socket.setTimeout(0)
      }
    }
    closeLargest(unread, maxUnreadBytes)
  }

  /** Its response is complete, so it needs its memory no more. */
  function release(current: NonNullable<Connection['current']>): void {
    usedBytes -= current.reservedBytes
    current.reservedBytes = 0
  }

  return {
    /**
     * Reserves memory for a request, in bytes of the heap, until it is answered.
     *
     * @returns whether there is enough; if not, the request must be rejected
     */
    reserve({ socket }: IncomingMessage, bytes: number): boolean {
      const current = connections.get(socket)?.current
      if (!current) return false
      usedBytes += bytes
      current.reservedBytes += bytes
      const others = usedBytes - current.reservedBytes - BYTES_A_REQUEST
      // Half of the memory is for small requests, so that a few large ones can't block all others.
      const limit = current.reservedBytes > LARGE_BYTES ? maxBytes / 2 : maxBytes
      // A request that is alone always has enough.
      return usedBytes <= limit || others === 0
    },
  }
}

export type Reserve = ReturnType<typeof openConnections>['reserve']

function closeLargest(unread: Socket[], maxBytes: number): void {
  let sum = unread.reduce((sum, { writableLength }) => sum + writableLength, 0)
  const largestFirst = unread.toSorted((a, b) => b.writableLength - a.writableLength)
  // The last one stays, however large it is.
  for (const socket of largestFirst.slice(0, -1)) {
    if (sum <= maxBytes) return
    sum -= socket.writableLength
    socket.destroy()
  }
}
'''
# release inline
s=s.replace('''        if (current?.response.writableEnded) release(current)
''','''        // A complete response needs the memory of its request no more.
        if (current?.response.writableEnded) {
          usedBytes -= current.reservedBytes
          current.reservedBytes = 0
        }
''')
a=s.index('  /** Its response is complete, so'); b=s.index('  return {\n    /**')
s=s[:a]+s[b:]
open('src/http/connections/connections.ts','w').write(s)
sub('src/http/server.ts',
("""import { closeSlowReaders } from './connections/slowReaders.ts'
""",""),
("""    maxBytes: heapBytes * REQUESTS_SHARE,
""","""    maxBytes: heapBytes * REQUESTS_SHARE,
    maxUnreadBytes: heapBytes * UNREAD_SHARE,
    stallMs,
"""),
("""  const stopClosing = closeSlowReaders(connections, stallMs, heapBytes * UNREAD_SHARE)

""","""
"""),
("""      await drain(server)
      stopClosing()
""","""      await drain(server)
"""),
("""  const connections = openConnections(""","""  const { reserve } = openConnections("""),
("""      const { reserve } = connections
""",""),
)
