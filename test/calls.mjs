// Counts the function calls that some operations make, and finds their files, by V8's precise coverage. Unlike a time, a
// count is the same on a slow or busy machine: repeats differ by about 1 %.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HELP = `Counts the function calls of some operations, and finds the files of Nth's functions that they execute. Fails if an
operation makes over 3 % more calls than test/calls.json has, if an increment executes more files than it may, or
functions of what it doesn't need, or if CONTRIBUTING.md shows other files.

  npm run check:calls -- [options]

  --trace          print the functions of each file
  --record         lower the recorded numbers to the measured ones, and write the files to CONTRIBUTING.md
  --why <reason>   with --record: raise the numbers that are exceeded, and record the reason
  --help           this text`

const MARGIN = 1.03
/** Repeats that aren't counted: they create rows, open connections and compile documents. */
const WARM_UP = 100
const ROUNDS = 10
const REPEATS = 200
const BATCH = 31

/** What one increment may execute. */
const MAX_FILES = 48
const MAX_FOLDERS = 7
const NEEDLESS = /sequence|reservation|histor|slot/i

const RECORD = new URL('calls.json', import.meta.url)
const DOCS = new URL('../CONTRIBUTING.md', import.meta.url)
/** In the docs, the table of files is between these lines. */
const [BEGIN, END] = [
  '<!-- npm run check:calls -- --record writes this table -->\n',
  '<!-- end of the table -->\n',
]

const { values: options } = parseArgs({
  options: {
    trace: { type: 'boolean' },
    record: { type: 'boolean' },
    why: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.why !== undefined && !options.record) throw new Error('--why needs --record')
if (options.help) console.log(HELP)
else process.exitCode = await check(options)

/** @returns the exit code */
async function check({ trace, record, why }) {
  const { calls, raises } = JSON.parse(await readFile(RECORD, 'utf8'))
  const lines = []
  let isExceeded = false
  const operations = await measureAll()
  for (const [operation, { own, libraries }] of Object.entries(operations)) {
    calls[operation] ??= { own: 0, libraries: 0 }
    for (const [code, count] of Object.entries({ own, libraries })) {
      const recorded = calls[operation][code]
      const isOver = count > recorded * MARGIN
      lines.push({ operation, code, recorded, measured: count, '': isOver ? 'too many' : '' })
      if (isOver && why) raises.push(`${operation}, ${code}, from ${recorded} to ${count}: ${why}`)
      if (count < recorded || (isOver && why)) calls[operation][code] = count
      isExceeded ||= isOver && !why
    }
  }
  console.table(lines)
  if (trace) printTraces(operations)
  if (record) await writeFile(RECORD, `${JSON.stringify({ calls, raises }, null, 2)}\n`)
  const faults = [...faultsOf(operations.increment.files), ...(await faultsOfDocs(operations, record))]
  if (isExceeded)
    faults.push(
      'Some make over 3 % more calls than recorded. If they must: --record --why "…" raises the record.',
    )
  for (const fault of faults) console.error(fault)
  return faults.length === 0 ? 0 : 1
}

function printTraces(operations) {
  for (const [operation, { files }] of Object.entries(operations)) {
    console.log(`\n${operation}: ${files.size} files`)
    for (const [file, functions] of [...files].sort()) console.log(`  ${file}: ${functions.join(', ')}`)
  }
}

/** Why an increment doesn't execute just what it needs. */
function faultsOf(files) {
  const faults = []
  const folders = new Set([...files.keys()].map((file) => file.split('/').slice(0, -1).join('/')))
  if (files.size > MAX_FILES)
    faults.push(`An increment executes ${files.size} files, more than ${MAX_FILES}.`)
  if (folders.size > MAX_FOLDERS)
    faults.push(`An increment executes files of ${folders.size} folders, more than ${MAX_FOLDERS}.`)
  for (const [file, functions] of files) {
    const needless = functions.filter((name) => NEEDLESS.test(name) || NEEDLESS.test(file))
    if (needless.length > 0) faults.push(`An increment needs nothing of ${file}: ${needless.join(', ')}.`)
  }
  return faults
}

/** Compares the table in the docs with what was measured, or writes it. */
async function faultsOfDocs(operations, isRecording) {
  const requests = Object.values(operations).filter(({ isRequest }) => isRequest)
  const [first, ...others] = requests.map(({ files }) => new Set(files.keys()))
  // A file stands in the first column whose operations execute it.
  const more = others.flatMap((files) => [...files]).filter((file) => !first.has(file))
  const columns = [[...first], [...new Set(more)]]
  const folders = [...new Set(columns.flat().map(posix.dirname))].sort()
  const rows = folders.map((folder) => {
    const namesOf = (files) =>
      files.filter((file) => posix.dirname(file) === folder).map((file) => posix.basename(file, '.ts'))
    return `| \`${folder}\` | ${columns.map((files) => namesOf(files).sort().join(', ')).join(' | ')} |`
  })
  const table = ['| Folder | `increment` | The others also |', '|---|---|---|', ...rows].join('\n')
  const docs = await readFile(DOCS, 'utf8')
  const [before, rest = ''] = docs.split(BEGIN)
  const [shown = '', after = ''] = rest.split(END)
  if (isRecording) await writeFile(DOCS, `${before}${BEGIN}\n${table}\n\n${END}${after}`)
  // Which operation executes a file may vary with the jobs that run beside it.
  const namesIn = (text) =>
    [...text.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(([, folder, cells]) => {
      const names = new Set(cells.split(/ \| |, /).filter(Boolean))
      return `${folder}: ${[...names].sort()}`
    })
  if (isRecording || namesIn(shown).join() === namesIn(table).join()) return []
  return ['CONTRIBUTING.md shows other files than those that are executed: --record writes them.']
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
    // The jobs that are due when a server starts begin within two seconds.
    await pause(4000)
    const count = (work) => countCalls(coverage, work)
    const request = async (work) => ({ ...(await count(work)), isRequest: true })
    return {
      increment: await request(() =>
        ask('mutation($name: String!) { increment(name: $name) { value } }', { name: 'hot' }),
      ),
      nextInSequence: await request(() =>
        ask(
          'mutation($name: String!, $group: String!) { nextInSequence(name: $name, group: $group) { value } }',
          {
            name: 'ticket',
            group: 'MYBOARD',
          },
        ),
      ),
      'counters(names:), ten': await request(() =>
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
  const notices = { ...openLog(config.logLevel), info: console.error }
  const server = await openServer({
    config,
    targets: [target],
    notices,
  })
  onClose(server.close)
  const { writeTimeoutMs: timeoutMs, maxPending, keyTtlMs } = config
  const limits = { timeoutMs, maxPending, keyTtlMs }
  const nth = openNth([target], { ...limits, notices, runsJobs: false, random: Math.random })
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
  let files = new Map()
  for (let round = 0; round < ROUNDS; round++) {
    // Each time, counts begin again at 0.
    await coverage.post('Profiler.takePreciseCoverage')
    for (let repeat = 0; repeat < REPEATS; repeat++) await work()
    const { result } = await coverage.post('Profiler.takePreciseCoverage')
    // Of all rounds: a function that V8 has inlined by the last one isn't seen there.
    files = new Map([...files, ...filesIn(result)])
    for (const code of Object.keys(lowest)) {
      const calls = result.flatMap(({ url, functions }) => (codeOf(url) === code ? functions : []))
      const count = calls.reduce((sum, { ranges }) => sum + ranges[0].count, 0)
      lowest[code] = Math.min(lowest[code], Math.round(count / REPEATS))
    }
  }
  return { ...lowest, files }
}

/** The names of the functions that each repeat executes, by file. */
function filesIn(result) {
  const files = new Map()
  for (const { url, functions } of result) {
    if (codeOf(url) !== 'own') continue
    const executed = functions.filter(({ ranges }) => ranges[0].count >= REPEATS / 2)
    const file = url.split('/dist/')[1].replace(/\.js$/, '.ts')
    if (executed.length > 0)
      files.set(
        file,
        executed.map(({ functionName }) => functionName || '(anonymous)'),
      )
  }
  return files
}

function codeOf(url) {
  if (url.includes('/node_modules/')) return 'libraries'
  return url.includes('/dist/') ? 'own' : undefined
}
