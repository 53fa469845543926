import type { ConnectionOptions } from 'mysql2'

/** Address of a database, and the user to connect as. */
export interface Target
  extends Pick<ConnectionOptions, 'host' | 'port' | 'socketPath' | 'user' | 'password' | 'ssl'> {
  database: string
}

const DEFAULT_PORT = 3306

/**
 * Parses `mysql://user:password@host:3306/database`. Optional parameters: `?ssl=true` encrypts the connection and
 * verifies the certificate; `?socketPath=/run/mysqld/mysqld.sock` connects to a server on this machine, and ignores the
 * host.
 *
 * @throws {Error} whose message continues a sentence that begins with the setting's name
 */
export function parseTarget(text: string): Target {
  const url = parseUrl(text)
  const database = decodeURIComponent(url.pathname.slice(1))
  if (database === '' || database.includes('/')) {
    throw new Error('must name one database: mysql://user:password@host:3306/nth')
  }
  const user = {
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
  }
  const { socketPath, ssl } = parseParameters(url.searchParams)
  if (socketPath !== undefined) return { socketPath, ...user, database }
  return {
    // An IPv6 address has brackets in a URL, but not in a socket address.
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    ...user,
    database,
    ...(ssl === 'true' && { ssl: {} }),
  }
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['mysql:', 'mariadb:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('must look like mysql://user:password@host:3306/nth')
  }
  return url
}

function parseParameters(parameters: URLSearchParams): { ssl?: string; socketPath?: string } {
  for (const [name, value] of parameters) {
    const isKnown = (name === 'ssl' && ['true', 'false'].includes(value)) || name === 'socketPath'
    if (!isKnown) {
      throw new Error(
        `has the unknown parameter "${name}=${value}"; supported: ssl=true, ssl=false, socketPath=…`,
      )
    }
  }
  return Object.fromEntries(parameters)
}

/** A target as shown to an operator, without its password. */
export function describeTarget({ host, port, socketPath, database }: Target): string {
  return socketPath ? `${database} at ${socketPath}` : `${database} at ${host}:${port}`
}
