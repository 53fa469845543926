// Counts the function calls that some operations make, by V8's precise coverage. Fails if one makes over 3 % more than
// `calls.json` has. Unlike a time, a count is the same on a slow or busy machine: repeats differ by about 1 %.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HELP = `Counts the function calls of some operations. Fails if one makes over 3 % more than bench/calls.json has.

  npm run check:calls -- [options]

  --record         lower the recorded numbers to the measured ones
  --why <reason>   with --record: raise those that are exceeded, and record the reason
  --help           this text`

const MARGIN = 1.03
/** Repeats that aren't counted: they create rows, open connections and compile documents. */
const WARM_UP = 100
const ROUNDS = 5
const REPEATS = 200
const BATCH = 31

const RECORD = new URL('calls.json', import.meta.url)

const { values: options } = parseArgs({
  options: { record: { type: 'boolean' }, why: { type: 'string' }, help: { type: 'boolean' } },
})
if (options.why !== undefined && !options.record) throw new Error('--why needs --record')
if (options.help) console.log(HELP)
else process.exitCode = await check(options)

/** @returns the exit code */
async function check({ record, why }) {
  const { calls, raises } = JSON.parse(await readFile(RECORD, 'utf8'))
  const lines = []
  let isExceeded = false
  for (const [operation, measured] of Object.entries(await measureAll())) {
    calls[operation] ??= { own: 0, libraries: 0 }
    for (const [code, count] of Object.entries(measured)) {
      const recorded = calls[operation][code]
      const isOver = count > recorded * MARGIN
      lines.push({ operation, code, recorded, measured: count, '': isOver ? 'too many' : '' })
      if (isOver && why) raises.push(`${operation}, ${code}, from ${recorded} to ${count}: ${why}`)
      if (count < recorded || (isOver && why)) calls[operation][code] = count
      isExceeded ||= isOver && !why
    }
  }
  console.table(lines)
  if (record) await writeFile(RECORD, `${JSON.stringify({ calls, raises }, null, 2)}\n`)
  if (!isExceeded) return 0
  console.error(
    'Some make over 3 % more calls than recorded. If they must: --record --why "…" raises the record.',
  )
  return 1
}

async function measureAll() {
  const closers = []
  try {
    const coverage = await startCoverage()
    const { url, nth } = await openAll((close) => closers.push(close))
    const names = Array.from({ length: BATCH }, (_, index) => `counter-${index}`)
    const ask = openClient(url)
    const inBatch = () =>
      Promise.all(names.map((name) => nth.counters.incrementBy({ namespace: 'default', name }, 1)))
    await inBatch()
    const count = (work) => countCalls(coverage, work)
    return {
      increment: await count(() =>
        ask('mutation($name: String!) { increment(name: $name) { value } }', { name: 'hot' }),
      ),
      nextInSequence: await count(() =>
        ask(
          'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }',
          {
            name: 'ticket',
            group: 'MYBOARD',
          },
        ),
      ),
      'counters(names:), ten': await count(() =>
        ask('query($names: [String!]!) { counters(names: $names) { value } }', { names: names.slice(0, 10) }),
      ),
      [`a batch of ${BATCH} increments, without HTTP`]: await count(inBatch),
    }
  } finally {
    for (const close of closers.reverse()) await close().catch(console.error)
  }
}

/** Each continuation of an async function counts as a call, too. In more detail, functions that V8 inlines would be lost. */
async function startCoverage() {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  return session
}

/** Starts a service, and beside it a core without HTTP, on a private database. */
async function openAll(onClose) {
  // As deployed. Libraries read it when they are imported.
  process.env.NODE_ENV = 'production'
  const { openServer } = await import('../dist/app.js')
  const { openNth } = await import('../dist/repository/nth.js')
  const { openPrivateDatabase } = await import('../dist/mysql/privateServer.js')
  const { migrate } = await import('../dist/repository/migrate.js')
  const { openStore } = await import('../dist/repository/nth.js')
  const { readConfig } = await import('../dist/config.js')
  const { openLog } = await import('../dist/operations/log.js')
  const directory = await mkdtemp(join(tmpdir(), 'nth-calls-'))
  onClose(() => rm(directory, { recursive: true, force: true }))
  const { target, close } = await openPrivateDatabase({
    directory,
    // Shared with the tests and `npm start`, so it is fetched once.
    programs: fileURLToPath(new URL('../.nth/server', import.meta.url)),
    path: process.env.PATH ?? '',
    memoryMb: 128,
    notices: { info: console.error, warn: console.error, fault: console.error },
    signal: new AbortController().signal,
  })
  onClose(close)
  await migrate(target)
  const config = readConfig({ PORT: '0', NTH_DATA_DIR: directory, NTH_WRITE_TIMEOUT_MS: '60000' })
  const log = openLog(config.logLevel)
  const notices = {
    info: console.error,
    warn: (message) => log.warn(message),
    fault: (error) => log.error(error),
  }
  const server = await openServer({
    config,
    targets: [target],
    notices,
  })
  onClose(server.close)
  const { writeTimeoutMs: timeoutMs, maxPending, keyTtlMs } = config
  const limits = { timeoutMs, timeLimitMs: timeoutMs, maxPending, keyTtlMs, notices }
  const store = openStore([target], { ...limits, runsJobs: false })
  onClose(store.close)
  const nth = openNth(store, { ...limits, random: Math.random })
  onClose(nth.close)
  return { url: server.url, nth }
}

/** A client that keeps its connection. Its calls aren't counted: they are Node's, and this file's. */
function openClient(url) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return (query, variables) =>
    new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', accept: 'application/json' }
      const sent = request(new URL('/graphql', url), { agent, method: 'POST', headers }, async (response) => {
        const { data, errors } = JSON.parse((await response.toArray()).join(''))
        if (errors) reject(new Error(`It answered ${JSON.stringify(errors)}`))
        else resolve(data)
      })
      sent.on('error', reject)
      sent.end(JSON.stringify({ query, variables }))
    })
}

/** The lowest of several rounds: scheduled jobs, and answers that arrive in several parts, only add calls. */
async function countCalls(coverage, work) {
  for (let repeat = 0; repeat < WARM_UP; repeat++) await work()
  const lowest = { own: Number.POSITIVE_INFINITY, libraries: Number.POSITIVE_INFINITY }
  for (let round = 0; round < ROUNDS; round++) {
    // Each time, counts begin again at 0.
    await coverage.post('Profiler.takePreciseCoverage')
    for (let repeat = 0; repeat < REPEATS; repeat++) await work()
    const { result } = await coverage.post('Profiler.takePreciseCoverage')
    for (const code of Object.keys(lowest)) {
      const calls = result.flatMap(({ url, functions }) => (codeOf(url) === code ? functions : []))
      const count = calls.reduce((sum, { ranges }) => sum + ranges[0].count, 0)
      lowest[code] = Math.min(lowest[code], Math.round(count / REPEATS))
    }
  }
  return lowest
}

function codeOf(url) {
  if (url.includes('/node_modules/')) return 'libraries'
  return url.includes('/dist/') ? 'own' : undefined
}
