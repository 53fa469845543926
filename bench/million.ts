import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BenchOptions } from './bench.ts'
import { openDatabase } from './database.ts'
import { startGenerator } from './generator.ts'
import { middleOf } from './median.ts'
import { memoryOf } from './mixed/processes.ts'
import { SERVES, startNth } from './systems.ts'
import { MILLION } from './workloads.ts'

const TEN_THOUSAND = 'uniform@64'
const MB = 1e6

/**
 * Measures uniform changes of a million counters beside those of 10 000, in turn, after each was met once.
 *
 * @returns Markdown
 * @throws {Error} at the first wrong number
 */
export async function million(options: Omit<BenchOptions, 'systems' | 'workloads'>): Promise<string> {
  const { rounds, seconds, warmupSeconds, say, signal } = options
  const directory = await mkdtemp(join(tmpdir(), 'nth-million-'))
  const database = await openDatabase(directory, { say, signal })
  const nth = startNth({ database: database.target })
  const generator = startGenerator()
  signal.addEventListener('abort', generator.end)
  try {
    const url = await nth.printed(SERVES)
    await generator.touch(url, TEN_THOUSAND)
    const before = memoryOf(nth.process.pid ?? 0)
    say('meeting a million names')
    const cold = await generator.touch(url, MILLION)
    const after = memoryOf(nth.process.pid ?? 0)
    const speeds = new Map([TEN_THOUSAND, MILLION].map((id) => [id, [] as number[]]))
    for (let round = 1; round <= rounds; round++) {
      for (const [id, done] of speeds) {
        signal.throwIfAborted()
        const { requestsPerSecond } = await generator.measure(url, id, { seconds, warmupSeconds })
        done.push(requestsPerSecond)
        say(`round ${round} of ${rounds}, ${id}: ${Math.round(requestsPerSecond)} requests/s`)
      }
    }
    const [ten = 0, all = 0] = [...speeds.values()].map(middleOf)
    const sizes = await sizesIn(directory)
    const total = [...sizes.values()].reduce((sum, size) => sum + size, 0)
    return [
      '# A million counters',
      `Uniform changes, 64 connections, medians of ${rounds} rounds of ${seconds} s. Every number handed out was checked.`,
      [
        '| | requests/s |',
        '| --- | ---: |',
        `| the first change of each of a million | ${Math.round(cold)} |`,
        `| 10 000 counters | ${Math.round(ten)} |`,
        `| 1 000 000 counters | ${Math.round(all)}: ${(all / ten).toFixed(2)} of that |`,
      ].join('\n'),
      `Tables: ${(total / MB).toFixed(0)} MB (${[...sizes].map(([name, size]) => `${name} ${(size / MB).toFixed(0)}`).join(', ')}). Memory of Nth: ${(before / MB).toFixed(0)} MB before, ${(after / MB).toFixed(0)} MB after it met them.`,
      '',
    ].join('\n\n')
  } finally {
    await generator.end()
    await nth.end()
    await database.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** The sizes of the files of Nth's tables that have more than a megabyte, in bytes. */
async function sizesIn(directory: string): Promise<Map<string, number>> {
  const data = (await readdir(directory)).find((name) => /^data-[a-z]+$/.test(name)) ?? ''
  const folder = join(directory, data, 'nth')
  const sizes = new Map<string, number>()
  for (const name of await readdir(folder)) {
    const { size } = await stat(join(folder, name))
    if (name.endsWith('.ibd') && size > MB) sizes.set(name.slice(0, -4), size)
  }
  return sizes
}
