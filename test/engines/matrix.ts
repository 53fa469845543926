// Tries every engine, one after another, and sums up as a table. See HELP.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEngine } from './engine.ts'

const HELP = `Tries every database engine that Nth supports, one after another, and sums up as a table.

  npm run test:engines -- [--short] [name…]

  --short  fewer tests and shorter runs, as at every change
  name     only these files of engines/

A single server gets the tests of the project, without those of pages. A cluster gets a run of faults through two Nth
servers, which write through different nodes on Galera, and then one of a node killed again and again.
`

/** How many times a node of each sort is killed. */
const KILLS = 10
const FAULTS_S = 600
/** Of a short run, with one kill. */
const SHORT_FAULTS_S = 60
const PORT = 26_000

/** What is running ends what it began; npm may pass a signal on to a process that has got it already. */
const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())

/** What is tried on an engine. `found` is a cell of the table. */
interface Trial {
  what: string
  run(file: string, directory: string): Promise<{ version: string; passed: boolean; found: string }>
}

const SINGLE = ['mariadb-10.11', 'mariadb-11.8', 'mariadb-newest', 'mysql-9']
const GALERA = ['galera-10.11', 'galera-11.8']
const CLUSTERS = [...GALERA, 'group-replication']

function trialsOf(engine: string, isShort: boolean): Trial[] {
  if (SINGLE.includes(engine)) return [suite(isShort)]
  const canary = GALERA.includes(engine)
    ? [faults('canary: a form known to be unsafe fails', '--canary')]
    : []
  if (isShort) {
    const options = ['--seconds', String(SHORT_FAULTS_S), '--faults', 'kill-writer']
    return [...canary, faults('a node that is written to killed, under load', ...options)]
  }
  return [
    ...canary,
    faults('all faults, ten minutes', '--seconds', String(FAULTS_S)),
    faults(`${KILLS} kills of each sort of node`, '--kills', String(KILLS)),
  ]
}

function suite(isShort: boolean): Trial {
  return {
    what: isShort ? 'the short tests' : 'the tests',
    async run(file, directory) {
      const report = join(directory, 'tests.json')
      const engine = await startEngine(file, join(directory, 'data'), PORT)
      try {
        const [host] = engine.nodes.map((node) => `${node.host}:${node.port}`)
        const mode = isShort ? ['--tags-filter', '!slow || quick', '--exclude', 'test/commands/**'] : []
        const passed = await succeeds(
          process.execPath,
          [
            'node_modules/vitest/vitest.mjs',
            'run',
            ...mode,
            '--exclude',
            'test/browser/**',
            // It shows what failed, at the end.
            '--reporter=dot',
            '--reporter=json',
            `--outputFile.json=${report}`,
          ],
          { TEST_DATABASE_URL: `mysql://root@${host}/nth` },
        )
        const { numPassedTests, numTotalTests } = JSON.parse(await readFile(report, 'utf8'))
        return { version: engine.version, passed, found: `${numPassedTests} of ${numTotalTests} passed` }
      } finally {
        await engine.stop()
      }
    },
  }
}

function faults(what: string, ...options: string[]): Trial {
  return {
    what,
    async run(file, directory) {
      const lines: string[] = []
      const program = join(import.meta.dirname, 'faults.js')
      const args = [
        '--engine',
        file,
        '--directory',
        join(directory, 'data'),
        '--port',
        String(PORT),
        ...options,
      ]
      const passed = await succeeds(process.execPath, [program, ...args], {}, (line) => lines.push(line))
      const version = lines.find((line) => /^(MariaDB|MySQL) /.test(line))?.split(': ')[0] ?? ''
      const sums = lines.filter((line) => /^(faults \d|unsafe form: )/.test(line))
      return { version, passed, found: sums.join('; ') }
    },
  }
}

/** Runs a program, whose output is shown. */
async function succeeds(
  program: string,
  args: string[],
  environment: Record<string, string>,
  onLine: (line: string) => void = () => undefined,
): Promise<boolean> {
  const child = spawn(program, args, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
    // The leader of a process group: vitest ends at once when it is interrupted, and leaves what its tests have started.
    detached: true,
  })
  const stop = () => child.pid !== undefined && process.kill(-child.pid, 'SIGTERM')
  if (interrupted.signal.aborted) stop()
  interrupted.signal.addEventListener('abort', stop)
  let rest = ''
  child.stdout.on('data', (chunk) => {
    process.stdout.write(chunk)
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
  const [code] = await once(child, 'close')
  interrupted.signal.removeEventListener('abort', stop)
  return code === 0
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { short: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
  })
  if (values.help) return void process.stdout.write(HELP)
  const engines = positionals.length > 0 ? positionals : [...SINGLE, ...CLUSTERS]
  const unknown = engines.filter((name) => ![...SINGLE, ...CLUSTERS].includes(name))
  if (unknown.length > 0) throw new Error(`There is no engine ${unknown.join(', ')}; see --help`)
  const rows: string[] = []
  let failed = 0
  for (const name of engines) {
    for (const { what, run } of trialsOf(name, values.short)) {
      console.log(`\n== ${name}: ${what}`)
      const directory = await mkdtemp(join(tmpdir(), `nth-${name}-`))
      const outcome = await run(join(process.cwd(), 'engines', name), directory).catch((error: Error) => ({
        version: '',
        passed: false,
        found: error.message,
      }))
      await rm(directory, { recursive: true, force: true })
      if (interrupted.signal.aborted) throw new Error('Interrupted')
      if (!outcome.passed) failed++
      const { version, passed, found } = outcome
      const row = `| ${name} | ${version} | ${what} | ${passed ? 'passed' : '**failed**'} | ${found} |`
      console.log(row)
      rows.push(row)
    }
  }
  console.log(
    `\n| Engine | Version | What | | Found |\n| --- | --- | --- | --- | --- |\n${rows.join('\n')}\n`,
  )
  console.log(`${rows.length - failed} passed, ${failed} failed`)
  if (failed > 0) process.exitCode = 1
}

await main()
