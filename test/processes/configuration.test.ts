import { availableParallelism } from 'node:os'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { isLoopback } from '../../src/http/origins.ts'
import { parseTargets } from '../../src/mysql/settings.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'
import { runCommand } from '../support/server/transfer.ts'

it.each([
  [{ PORT: 'http' }, 'PORT must be a port from 0 to 65535'],
  [{ PORT: '65536' }, 'PORT must be a port from 0 to 65535'],
  [{ PORT: '-1' }, 'PORT must be a port from 0 to 65535'],
  ...['0', '65', '-1', '1.5', 'two', '1e1'].map((WORKERS): [object, string] => [
    { WORKERS },
    'WORKERS must be a number of processes from 1 to 64, or auto for one per core.',
  ]),
  [{ DATABASE_URL: 'postgres://localhost/nth' }, 'DATABASE_URL must look like mysql://'],
  [{ DATABASE_URL: 'mysql://localhost' }, 'DATABASE_URL must name one database'],
  [{ DATABASE_URL: 'mysql://localhost/nth?pool=5' }, 'DATABASE_URL has the unknown parameter "pool=5"'],
  ...['shop.example', 'https://shop.example/'].map((NTH_ALLOWED_ORIGINS): [object, string] => [
    { NTH_ALLOWED_ORIGINS },
    'NTH_ALLOWED_ORIGINS must be * or a comma-separated list of origins',
  ]),
  [
    { HOST: '0.0.0.0' },
    'HOST is 0.0.0.0, where other machines can reach this server: set NTH_ADMIN_KEY to a secret',
  ],
  [{ HOST: 'nth.example' }, 'or set NTH_ANONYMOUS to what everyone may do'],
  [{ NTH_ADMIN_KEY: 'short' }, 'NTH_ADMIN_KEY must be at least 32 printable ASCII characters'],
  // A variable of Kubernetes is known by its name, not by its value alone.
  [{ NTH_ADMIN_KEY: 'tcp://short' }, 'NTH_ADMIN_KEY must be at least 32'],
  [{ NTH_ANONYMOUS: 'READ,EAT' }, 'NTH_ANONYMOUS has the unknown scope "EAT"; supported: READ, '],
  [{ NTH_TRUST_PROXY: '10.0.0.0/99' }, 'NTH_TRUST_PROXY has "10.0.0.0/99", which is not a network'],
  [
    { NTH_JWT_ISSUER: 'https://issuer.example' },
    'NTH_JWT_AUDIENCE is missing: set all of NTH_JWT_ISSUER, NTH_JWT_AUDIENCE, NTH_JWT_JWKS_URL, or none',
  ],
  [{ NTH_PUBLIC_URL: 'nth.example' }, 'NTH_PUBLIC_URL must be a URL'],
  [{ NTH_ADMINKEY: 'tcp://10.0.0.1:80' }, 'NTH_ADMINKEY is not a variable of Nth'],
  [{ NTH_ZZZZZZ: '1' }, 'NTH_ZZZZZZ is not a variable of Nth. nth start --help lists all variables.'],
  [
    { NTH_ADMINKEY: 'x', NTH_MAX_PENDING: 'many' },
    /^NTH_ADMINKEY is not a variable of Nth.*\nNTH_MAX_PENDING must be a whole number/,
  ],
])('configuration: says what is wrong with %j', (environment, message) => {
  expect(() => readConfig({ ...environment })).toThrow(message)
})

it.each([
  ['NTH_ADMIN_KYE', 'NTH_ADMIN_KEY'],
  ['nth_admin_key', 'NTH_ADMIN_KEY'],
  ['NTH_ANONYMUS', 'NTH_ANONYMOUS'],
  ['NTH_METRIC_PORT', 'NTH_METRICS_PORT'],
  ['NTH_WORKERS', 'WORKERS'],
  ['NTH_PORT', 'PORT'],
  ['NTH_DATABASE_URL', 'DATABASE_URL'],
])('configuration: says which variable is nearest to %s: %s', (name, nearest) => {
  expect(() => readConfig({ [name]: '1' })).toThrow(
    `${name} is not a variable of Nth. Did you mean ${nearest}? nth start --help lists all variables.`,
  )
  // Compose files set variables that are left out like this.
  expect(readConfig({ [name]: '' })).toEqual(readConfig({}))
})

it('WORKERS: is the number of processes, or one for each core', () => {
  expect(readConfig({}).workers).toBe(1)
  expect(readConfig({ WORKERS: '' }).workers).toBe(1)
  expect(readConfig({ WORKERS: '64' }).workers).toBe(64)
  expect(readConfig({ WORKERS: 'auto' }).workers).toBe(Math.min(availableParallelism(), 64))
})

it('HOST: knows which hosts other machines may reach', () => {
  expect(['0.0.0.0', '::', '192.168.0.1', 'nth.example', '127.example'].filter(isLoopback)).toEqual([])
  expect(['localhost', '::1', '127.0.0.1', '127.8.8.8'].filter((host) => !isLoopback(host))).toEqual([])
})

it('DATABASE_URL: may have everything that a URL may', () => {
  const rest = { user: 'root', password: '', database: 'nth' }
  expect(parseTargets('mysql://us%40er:p%3Aw@[::1]:3307/my%20db?ssl=false')).toEqual([
    { host: '::1', port: 3307, user: 'us@er', password: 'p:w', database: 'my db' },
  ])
  expect(parseTargets('mysql://db.example/nth?ssl=true')).toMatchObject([{ ssl: { verifyIdentity: true } }])
  expect(parseTargets('mariadb://db.example/nth')).toEqual([{ host: 'db.example', port: 3306, ...rest }])
  expect(parseTargets('mysql://root@localhost/nth?socketPath=/run/s.sock')).toEqual([
    { socketPath: '/run/s.sock', ...rest },
  ])
})

it('DATABASE_URL: may have several hosts, each with a port of its own', () => {
  const rest = { user: 'u', password: 'p@,', database: 'nth' }
  expect(parseTargets('mysql://u:p%40,@a:3307,b,[::1]:3308/nth')).toEqual([
    { host: 'a', port: 3307, ...rest },
    { host: 'b', port: 3306, ...rest },
    { host: '::1', port: 3308, ...rest },
  ])
  for (const [url, reason] of [
    ['mysql://a,b:3306,a:3306/nth', 'has the host a:3306 twice'],
    ['mysql://a:3306,A/nth', 'has the host a:3306 twice'],
    ['mysql://u:p@a:3306,u:p@b:3306/nth', 'must have one user and password, before the first host'],
    ['mysql://a,/nth', 'must look like'],
    ['mysql://u:p%zz@a,b/nth', 'write it as %25'],
    ['mysql://a,b/nth?socketPath=/s', 'must have one host if it has a socketPath'],
    ['mysql://a,b', 'must name one database'],
    ['mysql://a,b/nth?ssl-ca=/missing.pem', "has an ssl-ca that can't be read"],
    ['mysql://a,127.0.0.1/nth?ssl=true', 'needs the host name of the certificate'],
    ['mysql://a,b/nth?replica=b', 'has the unknown parameter "replica=b"'],
  ])
    expect(() => parseTargets(url ?? '')).toThrow(reason)
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

it('configuration: says which variables have no effect, of Kubernetes or of earlier versions', {
  tags: 'slow',
}, async () => {
  expect(readConfig(LINKS)).toEqual({ ...readConfig({}), ignored: Object.keys(LINKS) })
  expect(readConfig({ ...LINKS, NTH_METRICS_PORT: '9464' }).metricsPort).toBe(9464)
  expect(readConfig({ NTH_ACCEPT_LOST_COMMITS: '0' })).toEqual(readConfig({}))
  const target = await freshDatabase()
  const environment = { ...LINKS, NTH_ACCEPT_LOST_COMMITS: '1' }
  const { output } = await runCommand(target, ['check'], '', environment)
  const nth = await startNth({ DATABASE_URL: urlOf(target), ...environment, WORKERS: '2' })
  for (const said of [
    `Nth ignores ${Object.keys(LINKS).join(', ')}, which Kubernetes sets for Services called nth or nth-….`,
    'NTH_ACCEPT_LOST_COMMITS no longer has an effect: after a loss of commits, Nth stops until',
  ]) {
    expect(output).toMatch(new RegExp(`^warning +variables +${said}`, 'm'))
    expect(nth.errors().split(said)).toHaveLength(2)
  }
})
