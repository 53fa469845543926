import type { ConnectionOptions } from 'mysql2'

/** Where a database is, and as whom to use it. */
export interface Target
  extends Pick<ConnectionOptions, 'host' | 'port' | 'socketPath' | 'user' | 'password' | 'ssl'> {
  database: string
}

const DEFAULT_PORT = 3306

/**
 * Reads `mysql://user:password@host:3306/database`, with `?ssl=true` for an encrypted connection whose
 * certificate is checked.
 *
 * @throws {Error} with the rest of a sentence that begins with the setting's name
 */
export function parseTarget(text: string): Target {
  const url = parseUrl(text)
  const database = decodeURIComponent(url.pathname.slice(1))
  if (database === '' || database.includes('/')) {
    throw new Error('must name one database: mysql://user:password@host:3306/nth')
  }
  return {
    // An IPv6 address stands in brackets in a URL, but not for a socket.
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
    database,
    ...parseParameters(url.searchParams),
  }
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['mysql:', 'mariadb:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('must look like mysql://user:password@host:3306/nth')
  }
  return url
}

function parseParameters(parameters: URLSearchParams): Pick<Target, 'ssl'> {
  let ssl = false
  for (const [name, value] of parameters) {
    if (name !== 'ssl' || !['true', 'false'].includes(value)) {
      throw new Error(`has the parameter "${name}=${value}"; the only one known is ssl=true or ssl=false`)
    }
    ssl = value === 'true'
  }
  return ssl ? { ssl: {} } : {}
}

/** A target as a person names it, without its password. */
export function describeTarget({ host, port, socketPath, database }: Target): string {
  return socketPath ? `${database} at ${socketPath}` : `${database} at ${host}:${port}`
}
