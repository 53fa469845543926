import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { errorCodes } from '../src/core/errors.ts'
import { openMetrics } from '../src/metrics/metrics.ts'
import { readConfig } from '../src/process/config.ts'

const ROOT = join(import.meta.dirname, '..')
const read = (path: string) => readFile(join(ROOT, path), 'utf8')

/** Of histograms, what Prometheus calls their series. */
const SERIES_OF_HISTOGRAM = /_(bucket|sum|count)$/

interface Named {
  name: string
}

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; action: string }
}

async function rules(): Promise<Rule[]> {
  const { groups } = parse(await read('deploy/alerts.yaml'))
  return groups.flatMap((group: { rules: Rule[] }) => group.rules)
}

/** Every expression of the dashboard and of the alerts. */
async function expressions(): Promise<string[]> {
  const { panels } = JSON.parse(await read('deploy/grafana.json'))
  const targets = panels.flatMap((panel: { targets?: { expr: string }[] }) => panel.targets ?? [])
  return [...targets, ...(await rules())].map(({ expr }) => expr)
}

it('asks for metrics, and codes, that exist', async () => {
  const metrics = openMetrics('0.0.0')
  const types = new Map((await metrics.read()).map(({ name, type }) => [name, String(type)]))
  metrics.close()
  expect(types.size).toBeGreaterThan(20)
  const texts = await expressions()
  expect(texts.length).toBeGreaterThan(30)
  const unknown = texts
    .flatMap((text) => text.match(/\b(nth|process|nodejs)_\w+/g) ?? [])
    .filter((name) => {
      const histogram = types.get(name.replace(SERIES_OF_HISTOGRAM, ''))
      return SERIES_OF_HISTOGRAM.test(name) ? histogram !== 'histogram' : !types.has(name)
    })
  expect(unknown).toEqual([])
  const codes = texts.flatMap((text) => text.match(/\b[A-Z]{2,}[A-Z_]+\b/g) ?? [])
  expect(codes.filter((code) => code !== 'OK' && !(code in errorCodes))).toEqual([])
})

it('says for each alert what it means, and what to do', async () => {
  for (const { alert, annotations, labels } of await rules()) {
    const { summary, action } = annotations
    expect([alert, summary.length > 20, action.length > 60]).toEqual([alert, true, true])
    expect(['critical', 'warning', 'info']).toContain(labels.severity)
  }
})

it('sets only variables that Nth reads', async () => {
  const source = await read('src/process/config.ts')
  const variables = [...source.matchAll(/^ {2}([A-Z_]+): /gm)].map(([, name]) => name)
  for (const file of (await readdir(join(ROOT, 'deploy'))).filter((name) => name !== 'grafana.json')) {
    const names = (await read(`deploy/${file}`)).match(/\bNTH_[A-Z_]+\b/g) ?? []
    expect([file, names.filter((name) => !variables.includes(name))]).toEqual([file, []])
  }
})

it('gives a process more time to end than it takes', async () => {
  const { drainDelayMs, shutdownTimeoutMs } = readConfig({})
  const deployment = (await kubernetes()).find(({ kind }) => kind === 'Deployment')
  const { terminationGracePeriodSeconds: grace, containers } = deployment.spec.template.spec
  const setTo = (wanted: string) =>
    Number(containers[0].env.find(({ name }: Named) => name === wanted)?.value)
  const inPod = setTo('NTH_DRAIN_DELAY_MS') + setTo('NTH_SHUTDOWN_TIMEOUT_MS')
  expect(grace * 1000).toBeGreaterThan(inPod)
  const { services } = parse(await read('deploy/compose.yaml'))
  expect(Number.parseInt(services.nth.stop_grace_period, 10) * 1000).toBeGreaterThan(shutdownTimeoutMs)
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(await read('deploy/nth.service')) ?? []
  expect(Number(seconds) * 1000).toBeGreaterThan(drainDelayMs + shutdownTimeoutMs)
})

it('has objects for Kubernetes that refer to one another', async () => {
  const documents = await kubernetes()
  const byKind = Object.fromEntries(documents.map((document) => [document.kind, document]))
  const { selector, template } = byKind.Deployment.spec
  const { labels } = template.metadata
  expect(selector.matchLabels).toEqual(labels)
  expect(byKind.Service.spec.selector).toEqual(labels)
  expect(byKind.PodDisruptionBudget.spec.selector.matchLabels).toEqual(labels)
  const [container] = template.spec.containers
  expect(container.envFrom[0].secretRef.name).toBe(byKind.Secret.metadata.name)
  const ports = container.ports.map(({ name }: Named) => name)
  for (const probe of [container.readinessProbe, container.livenessProbe])
    expect(ports).toContain(probe.httpGet.port)
  expect(ports).toContain(byKind.Service.spec.ports[0].targetPort)
  const volumes = template.spec.volumes.map(({ name }: Named) => name)
  expect(container.volumeMounts.map(({ name }: Named) => name)).toEqual(volumes)
  // Nobody runs it with a secret that everyone knows.
  expect(() => readConfig({ ...byKind.Secret.stringData, HOST: '0.0.0.0' })).toThrow(
    /DATABASE_URL .*\nNTH_ADMIN_KEY /,
  )
})

// What a test asks for is what it finds, as in other files of it.
// biome-ignore lint/suspicious/noExplicitAny: see above
async function kubernetes(): Promise<any[]> {
  return parseAllDocuments(await read('deploy/kubernetes.yaml')).map((document) => document.toJS())
}
