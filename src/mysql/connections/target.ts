import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'mysql2'

/** Address of a database, and the user to connect as. */
export interface Target
  extends Pick<ConnectionOptions, 'host' | 'port' | 'socketPath' | 'user' | 'password' | 'ssl'> {
  database: string
}

/** One database that can be reached at several servers, of which the first is preferred: a cluster, or replicas. */
export type Targets = readonly [Target, ...Target[]]

const FORM = 'mysql://user:password@host:3306/nth'
const FORM_OF_SEVERAL = 'mysql://user:password@a:3306,b:3306/nth'
const PARAMETERS = 'ssl=true, ssl=false, ssl-ca=…, socketPath=…'

/** What precedes the hosts, the hosts, and what follows them. A password may contain "@" and ",". */
const PARTS = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s
/** Another user after a host, where else a part of the password would be. */
const USER_PER_HOST = /@[^@,]+:\d+,[^@,:]+:[^@,]*@$/

/**
 * Parses `mysql://user:password@host:3306/database`, with any number of hosts: `…@a:3306,b:3306/database`. `?ssl=true`
 * encrypts connections and verifies that a certificate is valid and for that host, by the certificates of authorities in
 * `?ssl-ca=/path/of/ca.pem` if that is given; `?socketPath=/run/mysqld/mysqld.sock` connects to a server on this machine,
 * and ignores the host.
 *
 * @throws {Error} whose message continues a sentence that begins with the setting's name
 */
export function parseTargets(text: string): Targets {
  const [, before = '', hosts = '', after = ''] = PARTS.exec(text) ?? []
  if (USER_PER_HOST.test(before))
    throw new Error(`must have one user and password, before the first host: ${FORM_OF_SEVERAL}`)
  const [first, ...others] = hosts.split(',').map((host) => parseOne(before + host + after))
  if (!first) throw new Error(`must look like ${FORM}`)
  const targets: Targets = [first, ...others]
  if (first.socketPath !== undefined && others.length > 0)
    throw new Error('must have one host if it has a socketPath')
  const names = targets.map(hostOf)
  const repeated = names.find((name, index) => names.indexOf(name) < index)
  if (repeated) throw new Error(`has the host ${repeated} twice`)
  return targets
}

function parseOne(text: string): Target {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['mysql:', 'mariadb:'].includes(url.protocol) || url.hostname === '') {
    throw new Error(`must look like ${FORM}`)
  }
  const database = decoded(url.pathname.slice(1))
  if (database === '' || database.includes('/')) {
    throw new Error(`must name one database: ${FORM}`)
  }
  const user = decoded(url.username) || 'root'
  const password = decoded(url.password)
  for (const [name, value] of url.searchParams) {
    if (['socketPath', 'ssl-ca'].includes(name) || (name === 'ssl' && ['true', 'false'].includes(value)))
      continue
    throw new Error(`has the unknown parameter "${name}=${value}"; supported: ${PARAMETERS}`)
  }
  const { socketPath, ssl, 'ssl-ca': authorities } = Object.fromEntries(url.searchParams)
  if (socketPath !== undefined) return { socketPath, user, password, database }
  // An IPv6 address has brackets in a URL, but not in a socket address.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  const target = { host, port: Number(url.port || 3306), user, password, database }
  if (ssl !== 'true' && (authorities === undefined || ssl === 'false')) return target
  // The driver doesn't compare addresses with certificates.
  if (isIP(host)) throw new Error(`must name its host as the certificate does, not ${host}, to use TLS`)
  return {
    ...target,
    ssl: { verifyIdentity: true, ...(authorities && { ca: readAuthorities(authorities) }) },
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('has a "%" that begins no character: write it as %25')
  }
}

function readAuthorities(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`has an ssl-ca that can't be read: ${(error as Error).message}`)
  }
}

/** A server as shown to an operator. */
export function hostOf({ host, port, socketPath }: Target): string {
  return socketPath ?? `${host}:${port}`
}

/** A database as shown to an operator, without its password. */
export function describeTargets(targets: Targets): string {
  return `${targets[0].database} at ${targets.map(hostOf).join(', ')}`
}
