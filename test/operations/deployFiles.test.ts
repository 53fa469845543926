import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { readConfig } from '../../src/config.ts'
import { openMetrics } from '../../src/operations/metrics.ts'
import { errorCodes } from '../../src/rules/errors.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
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

describe('the files for operators', () => {
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
    // It refuses the values, and says of each name that it doesn't know.
    const unknownOf = (names: readonly string[]) => {
      try {
        readConfig(Object.fromEntries(names.map((name) => [name, '?'])))
      } catch (error) {
        return (error as Error).message.split('\n').filter((line) => line.includes('not a variable'))
      }
    }
    expect(unknownOf(['NTH_ADMIN_KEYS'])).toHaveLength(1)
    for (const file of (await readdir(join(ROOT, 'deploy'))).filter((name) => name !== 'grafana.json')) {
      const names = (await read(`deploy/${file}`)).match(/\bNTH_[A-Z_]+\b/g) ?? []
      expect([file, unknownOf(['NTH_ADMIN_KEY', ...names])]).toEqual([file, []])
    }
  })

  it('gives a process more time to end than it takes', async () => {
    const { drainDelayMs, shutdownTimeoutMs } = readConfig({})
    const { Deployment: deployment } = await kubernetes()
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
    const byKind = await kubernetes()
    const { selector, template } = byKind.Deployment.spec
    const { labels } = template.metadata
    expect(selector.matchLabels).toEqual(labels)
    expect(byKind.Service.spec.selector).toEqual(labels)
    expect(byKind.PodDisruptionBudget.spec.selector.matchLabels).toEqual(labels)
    const [container] = template.spec.containers
    expect(container.envFrom[0].secretRef.name).toBe(byKind.Secret.metadata.name)
    const ports = container.ports.map(({ name }: Named) => name)
    for (const probe of [container.startupProbe, container.readinessProbe, container.livenessProbe])
      expect(ports).toContain(probe.httpGet.port)
    const { podSelector, ingress } = byKind.NetworkPolicy.spec
    expect(podSelector.matchLabels).toEqual(labels)
    expect(ingress.map((rule: { ports: { port: string }[] }) => rule.ports[0]?.port)).toEqual(ports)
    expect(ports).toContain(byKind.Service.spec.ports[0].targetPort)
    const volumes = template.spec.volumes.map(({ name }: Named) => name)
    expect(container.volumeMounts.map(({ name }: Named) => name)).toEqual(volumes)
    // Nobody runs it with a secret that everyone knows.
    expect(() => readConfig({ ...byKind.Secret.stringData, HOST: '0.0.0.0' })).toThrow(
      /DATABASE_URL .*\nNTH_ADMIN_KEY /,
    )
    // Nor with proxies that everyone can pretend to be.
    const env = Object.fromEntries(
      container.env.map(({ name, value }: Named & { value: string }) => [name, value]),
    )
    expect(() => readConfig(env)).toThrow(/^NTH_TRUST_PROXY [^\n]*$/)
  })

  it('backs up what the pods serve, to the claim, and is no pod of the Service', async () => {
    const byKind = await kubernetes()
    const { metadata, spec } = byKind.CronJob.spec.jobTemplate.spec.template
    const { template } = byKind.Deployment.spec
    expect(metadata.labels.app).not.toBe(template.metadata.labels.app)
    const [container] = spec.containers
    expect(container.image).toBe(template.spec.containers[0].image)
    expect(container.envFrom).toEqual(template.spec.containers[0].envFrom)
    const volume = spec.volumes.find(
      ({ persistentVolumeClaim: claim }: { persistentVolumeClaim?: object }) => claim,
    )
    expect(volume.persistentVolumeClaim.claimName).toBe(byKind.PersistentVolumeClaim.metadata.name)
    const mount = container.volumeMounts.find(({ name }: Named) => name === volume.name)
    expect(container.command.at(-1)).toBe(mount.mountPath)
    for (const pod of [spec, template.spec]) expect(pod.enableServiceLinks).toBe(false)
  })

  it('lets a migration take an hour, and a pause of the database as long as calls wait for it', async () => {
    const { Deployment: deployment } = await kubernetes()
    const { spec } = deployment
    const { startupProbe, readinessProbe } = spec.template.spec.containers[0]
    const msOf = (probe: { periodSeconds: number; failureThreshold: number }) =>
      probe.periodSeconds * probe.failureThreshold * 1000
    expect(msOf(startupProbe)).toBeGreaterThanOrEqual(3_600_000)
    expect(spec.progressDeadlineSeconds * 1000).toBeGreaterThan(msOf(startupProbe))
    expect(msOf(readinessProbe)).toBeGreaterThan(readConfig({}).writeTimeoutMs)
    const { services } = parse(await read('deploy/compose.yaml'))
    expect(services.nth.healthcheck.start_period).toBe('1h')
    expect(await read('deploy/Dockerfile')).toContain('--start-period=1h')
  })

  it('has one sandbox for the service and its backup', async () => {
    const [service, backup] = await Promise.all(
      ['nth', 'nth-backup'].map((name) => read(`deploy/${name}.service`)),
    )
    const sandboxIn = (unit = '') => /^AmbientCapabilities=[^[]*/m.exec(unit)?.[0].trim()
    expect(sandboxIn(backup)).toMatch(/UMask=0077$/)
    expect(sandboxIn(backup)).toBe(
      sandboxIn(service)?.replace('ProtectProc=invisible', 'ProtectProc=default'),
    )
  })

  it('makes a backup of its own in the second of another one, and never deletes that', async () => {
    const directory = await temporaryDirectory()
    const programs = await temporaryDirectory()
    // Its clock says the same time twice.
    const date = `#!/bin/sh\necho 2026-01-0$((1 + $(wc -l < calls) / 2))T02.17.00Z; echo call >> calls\n`
    await writeFile(join(programs, 'date'), date, { mode: 0o700 })
    const nth = `#!/bin/sh\n[ ! -e "$2/nth.jsonl" ] && echo '{"type":"end","lines":1}' > "$2/nth.jsonl"\n`
    await writeFile(join(programs, 'nth'), nth, { mode: 0o700 })
    await writeFile(join(programs, 'sleep'), '#!/bin/sh\n', { mode: 0o700 })
    await writeFile(join(directory, 'calls'), '')
    const env = { PATH: `${programs}:${process.env.PATH}` }
    for (let time = 0; time < 2; time += 1)
      await promisify(execFile)('/bin/sh', [join(ROOT, 'deploy/backup.sh'), directory, '3'], { env })
    expect((await readdir(directory)).toSorted()).toEqual([
      '2026-01-01T02.17.00Z',
      '2026-01-02T02.17.00Z',
      'calls',
    ])
  })

  // What a test asks for is what it finds, as in other files of it.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  async function kubernetes(): Promise<Record<string, any>> {
    const documents = parseAllDocuments(await read('deploy/kubernetes.yaml')).map((each) => each.toJS())
    return Object.fromEntries(documents.map((document) => [document.kind, document]))
  }
})
