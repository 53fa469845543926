import { createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { BenchOptions } from './bench.ts'
import { startChild } from './children.ts'
import { openDatabase } from './database.ts'
import { NODE_FLAGS, SERVES, startNthAt, urlOf } from './systems.ts'

const COUNTERS = 1_000_000
const GROUPS = 100_000
const SEQUENCES = 100
const KILLS = 20
/** Random reads that must be answered alike, and how many are asked for at once. */
const READS = 10_000
const AT_ONCE = 100
const ADVANCED_BY = 1000
const DAY_MS = 86_400_000
const MB = 1e6

interface Step {
  name: string
  seconds: number
  /** The most memory that the command had, in bytes. */
  peak: number
}

/**
 * Imports a million counters with history and 100 000 sequence groups, exports them, imports that elsewhere with a kill
 * twenty times, backs it up and restores it. Checks that all answer the same to random reads.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong answer, or if a command fails
 */
export async function transfer({ say, signal }: Pick<BenchOptions, 'say' | 'signal'>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'nth-transfer-'))
  const server = await openDatabase(directory, { say, signal })
  const [first, copy, restored] = ['first', 'copy', 'restored'].map((database) =>
    urlOf({ ...server.target, database }),
  ) as [string, string, string]
  const steps: Step[] = []

  async function run(name: string, url: string, ...args: string[]): Promise<void> {
    const step = await nth(url, args, signal)
    say(`${name}: ${step.seconds.toFixed(0)} s, ${(step.peak / MB).toFixed(0)} MB`)
    steps.push({ name, ...step })
  }

  try {
    const [file, exported, backup] = ['file.jsonl', 'exported.jsonl', 'backup'].map((name) =>
      join(directory, name),
    ) as [string, string, string]
    await pipeline(Readable.from(chunks(linesOfFile())), createWriteStream(file))
    await run('import', first, 'import', file)
    await run('export', first, 'export', '--output', exported)
    for (let kill = 1; kill <= KILLS; kill++) {
      signal.throwIfAborted()
      await killed(copy, ['import', exported], 1000 + Math.random() * 8000)
      say(`killed ${kill} of ${KILLS} imports`)
    }
    await run('import, after 20 that were killed', copy, 'import', exported)
    await run('the same once more', copy, 'import', exported)
    await compare(first, copy, 0)
    say(`the same answers to ${READS} random reads`)
    await run('backup', first, 'backup', backup)
    await run(
      `restore --advance ${ADVANCED_BY}`,
      restored,
      'restore',
      backup,
      '--advance',
      String(ADVANCED_BY),
    )
    await compare(first, restored, ADVANCED_BY)
    say(`${READS} random numbers have moved on by ${ADVANCED_BY}`)
    const { size } = await stat(exported)
    return [
      '# Export, import, backup, restore',
      `${COUNTERS} counters with an hour, three days and a month each, ${GROUPS} sequence groups; the file has ${(size / MB).toFixed(0)} MB.`,
      [
        '| command | seconds | memory at most, MB |',
        '| --- | ---: | ---: |',
        ...steps.map(
          ({ name, seconds, peak }) => `| ${name} | ${seconds.toFixed(0)} | ${(peak / MB).toFixed(0)} |`,
        ),
      ].join('\n'),
      `${2 * READS} random reads had the right answers.`,
      '',
    ].join('\n\n')
  } finally {
    await server.close()
    await rm(directory, { recursive: true, force: true })
  }
}

function start(url: string, args: string[]) {
  return startChild(process.execPath, [...NODE_FLAGS, 'dist/main.js', ...args], {
    env: { DATABASE_URL: url },
  })
}

/** Runs a command, and measures it. */
async function nth(url: string, args: string[], signal: AbortSignal): Promise<Omit<Step, 'name'>> {
  const child = start(url, args)
  signal.addEventListener('abort', child.end)
  const from = performance.now()
  let isOver = false
  child.ended.then(() => {
    isOver = true
  })
  let peak = 0
  while (!isOver) {
    // The kernel keeps the highest value; that of the last look is missing what came after it.
    const status = await readFile(`/proc/${child.process.pid}/status`, 'utf8').catch(() => '')
    peak = Math.max(peak, 1024 * Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0))
    await Promise.race([child.ended, pause(200)])
  }
  const how = await child.ended
  if (how !== 'exit 0') throw new Error(`nth ${args.join(' ')} ended (${how})`)
  return { seconds: (performance.now() - from) / 1000, peak }
}

async function killed(url: string, args: string[], afterMs: number): Promise<void> {
  const child = start(url, args)
  await Promise.race([child.ended, pause(afterMs)])
  child.process.kill('SIGKILL')
  await child.ended
}

function* linesOfFile(): Generator<object> {
  const hour = new Date(Date.now() - (Date.now() % 3_600_000)).toISOString()
  const periods = [
    { period: 'HOUR', keepDays: 90, since: null },
    { period: 'DAY', keepDays: null, since: null },
    { period: 'MONTH', keepDays: null, since: null },
  ]
  const definition = {
    minValue: null,
    maxValue: null,
    overflow: 'REJECT',
    slots: 1,
    timeZone: 'UTC',
    periods,
  }
  const short = (at: string) => `${at.slice(0, 19)}Z`
  const day = (back: number) => `${new Date(Date.now() - back * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`
  const month = `${hour.slice(0, 7)}-01T00:00:00Z`
  yield { type: 'nth', formatVersion: 1, version: '0.2.0', at: hour }
  for (let n = 0; n < COUNTERS; n++) {
    const days = [2, 1, 0].map((back) => [day(back), (n % 1000) + back])
    const history = { HOUR: [[short(hour), n % 100]], DAY: days, MONTH: [[month, n]] }
    const times = { createdAt: hour, updatedAt: hour }
    yield {
      type: 'counter',
      namespace: 'default',
      name: `counter ${n}`,
      value: 2 * n,
      definition,
      ...times,
      history,
    }
  }
  for (let n = 0; n < GROUPS; n++) {
    const position = {
      period: 0,
      lastValue: n + 1,
      nextValue: null,
      generation: 0,
      createdAt: hour,
      updatedAt: hour,
    }
    yield {
      type: 'sequenceGroup',
      namespace: 'default',
      sequence: `sequence ${n % SEQUENCES}`,
      group: `group ${n}`,
      latest: { period: 0, format: null, timeZone: 'UTC', isCurrent: true },
      periods: [position],
    }
  }
  yield { type: 'end', lines: COUNTERS + GROUPS }
}

function* chunks(lines: Iterable<object>): Generator<string> {
  let chunk = ''
  for (const line of lines) {
    chunk += `${JSON.stringify(line)}\n`
    if (chunk.length < 2 ** 18) continue
    yield chunk
    chunk = ''
  }
  yield chunk
}

/** Asks both databases at random names, and fails unless the second has moved on by so much. */
async function compare(one: string, other: string, by: number): Promise<void> {
  const services = [startNthAt(one), startNthAt(other)] as const
  try {
    const urls = await Promise.all(services.map((service) => service.printed(SERVES)))
    for (let read = 0; read < READS; read += AT_ONCE) {
      const query = queryOf(by === 0)
      const [expected, found] = await Promise.all(urls.map((url) => answerOf(url, query)))
      const moved = JSON.stringify(expected, (key, value) =>
        key === 'value' || key === 'lastValue' ? (typeof value === 'number' ? value + by : value) : value,
      )
      if (JSON.stringify(found) !== moved) throw new Error(`${JSON.stringify(found)} is not ${moved}`)
    }
  } finally {
    for (const service of services) await service.end()
  }
}

function queryOf(withHistory: boolean): string {
  const random = (below: number) => Math.floor(Math.random() * below)
  const history = withHistory
    ? 'createdAt updatedAt hour: valueIn(period: HOUR) months: history(period: MONTH, last: 2) { start value } days: history(period: DAY, last: 4) { start value }'
    : ''
  const fields = Array.from({ length: AT_ONCE }, (_, index) => {
    if (index % 10 > 0)
      return `c${index}: counter(name: "counter ${random(COUNTERS)}") { name value ${history} }`
    const group = random(GROUPS)
    return `s${index}: sequence(name: "sequence ${group % SEQUENCES}") { group(name: "group ${group}") { lastValue } }`
  })
  return `{ ${fields.join('\n')} }`
}

async function answerOf(url: string, query: string): Promise<object> {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  })
  // The form of every answer.
  const { data, errors } = (await response.json()) as { data?: object; errors?: unknown }
  if (!data || errors) throw new Error(`Refused: ${JSON.stringify(errors)}`)
  return data
}
