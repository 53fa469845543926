// @module-tag slow
import { existsSync } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Load, startLoad } from '../support/client/load.ts'
import { OWN_MOUNTS } from '../support/ownMounts.ts'
import { type NthProcess, startNth, temporaryDirectory } from '../support/server/nthProcess.ts'

const SERVER = join(import.meta.dirname, '../../.nth/server')
const MB = 2 ** 20

/** Nth with its database on a small disk. */
async function startOnSmallDisk() {
  const directory = await temporaryDirectory()
  const commands = [
    `mount -t tmpfs -o mode=0700,size=260m none ${directory}`,
    ...(existsSync(SERVER) ? [`ln -s ${SERVER} ${directory}/server`] : []),
    'exec "$@"',
  ]
  const nth = await startNth(
    {
      NTH_DATA_DIR: directory,
      NTH_DATABASE_MEMORY_MB: '32',
      NTH_WRITE_TIMEOUT_MS: '1000',
      NTH_METRICS_PORT: '0',
    },
    [...(OWN_MOUNTS ?? []), 'sh', '-ec', commands.join('; '), 'sh'],
  )
  const path = `/proc/${nth.child.pid}/root${directory}/ballast`
  return {
    nth,

    async fill(): Promise<void> {
      const file = await open(path, 'w')
      const chunk = Buffer.alloc(MB / 16)
      try {
        while (true) await file.write(chunk)
      } catch (error) {
        expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC')
      } finally {
        await file.close()
      }
    },

    makeRoom: () => rm(path),
  }
}

async function numberOf(nth: NthProcess, mutation: string): Promise<number> {
  const { data, errors } = await nth.send(mutation)
  if (data?.it) return data.it.value
  throw Object.assign(new Error('Refused'), errors?.[0]?.extensions)
}

interface Page {
  nodes: { value: number }[]
  pageInfo: { hasNextPage: boolean; endCursor: string }
}

/** The values of all counters of a namespace. */
async function valuesIn(nth: NthProcess, name: string): Promise<number[]> {
  const query = `query ($name: String!, $after: String) {
    namespace(name: $name) { counters(first: 500, after: $after) { nodes { value } pageInfo { hasNextPage endCursor } } }
  }`
  const values: number[] = []
  for (let after: string | null = null; ; ) {
    const { namespace }: { namespace: { counters: Page } } = await nth.ask(query, { name, after })
    const { counters } = namespace
    values.push(...counters.nodes.map(({ value }) => value))
    if (!counters.pageInfo.hasNextPage) return values
    after = counters.pageInfo.endCursor
  }
}

it.skipIf(!OWN_MOUNTS)('full disk: Nth says so, loses nothing, and goes on when there is room', async () => {
  const { nth, fill, makeRoom } = await startOnSmallDisk()
  const metricsUrl = /Metrics: (\S+)/.exec(nth.output())?.[1] ?? ''
  const isUp = async () =>
    / (\d)$/.exec(/^nth_database_up .*$/m.exec(await (await fetch(metricsUrl)).text())?.[0] ?? '')?.[1]
  const readiness = async () => {
    const response = await fetch(`${nth.url}/ready`)
    return { status: response.status, text: await response.text(), up: await isUp() }
  }
  let calls = 0
  const refused: string[] = []
  // Each key, and each new name, needs room. With a key, what was refused is sent again.
  const load = (callers: number, mutation: (key: string) => string): Load =>
    startLoad(callers, async () => {
      const text = mutation(`${calls++} ${'k'.repeat(200)}`)
      while (true) {
        try {
          return await numberOf(nth, text)
        } catch (error) {
          refused.push((error as { code?: string }).code ?? String(error))
          if (!text.includes('idempotencyKey')) throw error
        }
      }
    })
  const loads = {
    counter: load(4, (key) => `mutation { it: increment(name: "hot", idempotencyKey: "${key}") { value } }`),
    sequence: load(
      2,
      (key) => `mutation { it: nextInSequence(name: "s", idempotencyKey: "${key}") { value } }`,
    ),
    unkeyed: load(2, () => 'mutation { it: increment(name: "unkeyed") { value } }'),
    created: load(
      2,
      (key) =>
        `mutation { it: increment(namespace: "new", name: "${key.slice(0, 180)}", idempotencyKey: "${key}") { value } }`,
    ),
  }
  const all = Object.values(loads)
  await Promise.all(all.map(({ afterMore }) => afterMore(10)))
  expect(await readiness()).toMatchObject({ status: 200, up: '1' })

  await fill()
  const full = { status: 503, text: expect.stringContaining('Database unavailable: disk full.'), up: '0' }
  await expect.poll(readiness).toEqual(full)
  const seen: object[] = []
  const before = refused.length
  while (refused.length < before + 30) seen.push(await readiness())
  expect(seen.length).toBeGreaterThan(2)
  for (const one of seen) expect(one).toEqual(full)

  await makeRoom()
  await expect.poll(readiness).toMatchObject({ status: 200, up: '1' })
  await Promise.all(all.map(({ afterMore }) => afterMore(10)))
  await Promise.all(all.map(({ end }) => end()))
  for (const { answered } of all) expect(answered.length).toBeGreaterThan(20)
  // MariaDB may hang, or end itself, when its disk is full.
  expect(['UNAVAILABLE', 'OUTCOME_UNKNOWN']).toEqual(expect.arrayContaining([...new Set(refused)]))
  for (const { answered } of [loads.counter, loads.sequence, loads.unkeyed])
    expect(new Set(answered).size).toBe(answered.length)
  const { hot, unkeyed, s } = await nth.ask(`{
    hot: counter(name: "hot") { value }
    unkeyed: counter(name: "unkeyed") { value }
    s: sequence(name: "s") { group(name: "") { lastValue } }
  }`)
  expect(hot.value).toBe(loads.counter.answered.length)
  const { answered, refused: failed } = loads.unkeyed
  const unknown = failed.filter((code) => code === 'OUTCOME_UNKNOWN').length
  expect(unkeyed.value).toBeGreaterThanOrEqual(answered.length)
  expect(unkeyed.value).toBeLessThanOrEqual(answered.length + unknown)
  expect(s.group.lastValue).toBe(loads.sequence.answered.length)
  expect(await valuesIn(nth, 'new')).toEqual(loads.created.answered)
  expect(nth.errors().match(/unavailable: |available again/g)).toEqual(['unavailable: ', 'available again'])
})
