import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth, temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')

interface Ended {
  code: number
  output: string
  errors: string
}

function run(...args: string[]): Promise<Ended> {
  return runWith({}, ...args)
}

function runWith(environment: Record<string, string>, ...args: string[]): Promise<Ended> {
  const options = { cwd: ROOT, env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment } }
  return new Promise((resolve) => {
    execFile(process.execPath, ['dist/bundle/main.js', ...args], options, (error, output, errors) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, output, errors })
    })
  })
}

it.each([[], ['--help'], ['-h']])('lists its commands: nth %s', { tags: 'slow' }, async (...option) => {
  const { code, output, errors } = await run(...option)
  expect([code, errors]).toEqual([0, ''])
  expect(output).toMatch(/^Usage: nth /)
  const files = await readdir(join(ROOT, 'src/commands'))
  const names = [...output.matchAll(/^ {2}(\w+) {2,}\w/gm)].map(([, name]) => name)
  expect(names.length).toBeGreaterThan(1)
  for (const name of names) {
    expect(files).toContain(`${name}.ts`)
    expect((await run(name ?? '', '--help')).output).toMatch(new RegExp(`^Usage: nth ${name} `))
  }
})

it.each(['--help', '-h'])('says with start %s how it is configured, and starts nothing', async (option) => {
  const { code, output, errors } = await run('start', option)
  expect([code, errors]).toEqual([0, ''])
  const source = await readFile(join(ROOT, 'src/config.ts'), 'utf8')
  const settings = [...source.matchAll(/variable\(.([A-Z_]+).,/g)].map(([, name]) => name)
  expect(settings.length).toBeGreaterThan(8)
  for (const name of settings) expect(output).toContain(`  ${name} `)
  expect(output).toContain(`(${readConfig({}).writeTimeoutMs})`)
})

it.each(['--version', '-v'])('nth %s: prints its release, and the commit of a clone', async (option) => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const { output } = await run(option)
  expect(output).toMatch(new RegExp(`^${version}(\\+[0-9a-f]{7,}(-dirty)?)?\n$`))
})

it.each([['serve'], ['constructor'], ['--port'], ['start', '--port'], ['start', 'now'], ['keys', '--port']])(
  'refuses %s %s with one line',
  async (...args) => {
    const { code, output, errors } = await run(...args)
    expect([code, output]).toEqual([1, ''])
    expect(errors).toContain(args.at(-1))
    expect(errors.trim().split('\n')).toHaveLength(1)
  },
)

it.each([
  ['start'],
  ['check'],
  ['keys', 'list'],
  ['export'],
  ['import', 'x.jsonl'],
  ['backup', 'DIRECTORY'],
  ['restore', '--advance', '5'],
])('refuses a misspelt variable: %s', async (...args) => {
  const words = await Promise.all(args.map((word) => (word === 'DIRECTORY' ? temporaryDirectory() : word)))
  const { code, errors } = await runWith({ NTH_ADMINKEY: 'x'.repeat(32), DATABASE_URL: NOWHERE }, ...words)
  // The service says it in the form of its log.
  const said = args[0] === 'start' ? `${JSON.parse(errors).msg}\n` : errors
  expect([code, said]).toEqual([1, `${unknown('NTH_ADMINKEY', 'NTH_ADMIN_KEY')}\n`])
})

const NOWHERE = 'mysql://root@127.0.0.1:1/nth'

const unknown = (name: string, nearest: string) =>
  `${name} is not a variable of Nth. Did you mean ${nearest}? nth start --help lists all variables.`

it.each([
  ['NTH_ADMIN_KYE', 'NTH_ADMIN_KEY'],
  ['nth_admin_key', 'NTH_ADMIN_KEY'],
  ['NTH_ANONYMUS', 'NTH_ANONYMOUS'],
  ['NTH_METRIC_PORT', 'NTH_METRICS_PORT'],
  ['NTH_WORKERS', 'WORKERS'],
  ['NTH_PORT', 'PORT'],
  ['NTH_DATABASE_URL', 'DATABASE_URL'],
])('says which variable is nearest to %s: %s', (name, nearest) => {
  expect(() => readConfig({ [name]: '1' })).toThrow(unknown(name, nearest))
  // Compose files set variables that are left out like this.
  expect(readConfig({ [name]: '' })).toEqual(readConfig({}))
})

it('guesses no variable that is far from what was written', () => {
  expect(() => readConfig({ NTH_ZZZZZZ: '1' })).toThrow(
    /^NTH_ZZZZZZ is not a variable of Nth. nth start --help/,
  )
})

it('names all that is wrong at once', () => {
  const wrong = () => readConfig({ NTH_ADMINKEY: 'x', NTH_MAX_PENDING: 'many' })
  expect(wrong).toThrow(/^NTH_ADMINKEY is not a variable of Nth.*\nNTH_MAX_PENDING must be a whole number/)
})

/** What Kubernetes sets for Services called nth, nth-metrics and nth-database. */
const LINKS = {
  NTH_SERVICE_HOST: '10.0.0.1',
  NTH_SERVICE_PORT: '80',
  NTH_SERVICE_PORT_HTTP: '80',
  NTH_PORT: 'tcp://10.0.0.1:80',
  NTH_PORT_80_TCP: 'tcp://10.0.0.1:80',
  NTH_PORT_80_TCP_PROTO: 'tcp',
  NTH_PORT_80_TCP_PORT: '80',
  NTH_PORT_80_TCP_ADDR: '10.0.0.1',
  NTH_METRICS_SERVICE_HOST: '10.0.0.2',
  NTH_METRICS_PORT: 'tcp://10.0.0.2:9464',
  NTH_DATABASE_PORT: 'udp://10.0.0.3:53',
  NTH_DATABASE_PORT_53_UDP_ADDR: '10.0.0.3',
}

it('ignores what Kubernetes sets for Services of similar names, and says so', { tags: 'slow' }, async () => {
  expect(readConfig(LINKS)).toEqual({ ...readConfig({}), ignored: Object.keys(LINKS) })
  expect(readConfig({ ...LINKS, NTH_METRICS_PORT: '9464' }).metricsPort).toBe(9464)
  const said = `Nth ignores ${Object.keys(LINKS).join(', ')}, which Kubernetes sets for Services called nth or nth-….`
  const environment = { DATABASE_URL: urlOf(await freshDatabase()), ...LINKS }
  expect((await runWith(environment, 'check')).output).toContain(said)
  const nth = await startNth({ ...environment, WORKERS: '2' })
  expect(nth.errors().split(said)).toHaveLength(2)
})

it('says at the start and in nth check that NTH_ACCEPT_LOST_COMMITS has no effect', {
  tags: 'slow',
}, async () => {
  expect(readConfig({ NTH_ACCEPT_LOST_COMMITS: '0' })).toEqual(readConfig({}))
  const environment = { DATABASE_URL: urlOf(await freshDatabase()), NTH_ACCEPT_LOST_COMMITS: '1' }
  const said = 'NTH_ACCEPT_LOST_COMMITS no longer has an effect: after a loss of commits, Nth stops until'
  const check = await runWith(environment, 'check')
  expect(check.output).toMatch(new RegExp(`^warning +variables +${said}`, 'm'))
  const nth = await startNth({ ...environment, WORKERS: '2' })
  expect(nth.errors().split(said)).toHaveLength(2)
})

it('ignores no variable because of its value alone', () => {
  expect(() => readConfig({ NTH_ADMIN_KEY: 'tcp://short' })).toThrow(/^NTH_ADMIN_KEY must be at least 32/)
  expect(() => readConfig({ NTH_ADMINKEY: 'tcp://10.0.0.1:80' })).toThrow(
    'NTH_ADMINKEY is not a variable of Nth',
  )
})
