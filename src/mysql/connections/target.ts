import type { ConnectionOptions } from 'mysql2'

/** Address of a database, and the user to connect as. */
export interface Target
  extends Pick<ConnectionOptions, 'host' | 'port' | 'socketPath' | 'user' | 'password' | 'ssl'> {
  database: string
}

/**
 * Parses `mysql://user:password@host:3306/database`. `?ssl=true` encrypts the connection and verifies the certificate;
 * `?socketPath=/run/mysqld/mysqld.sock` connects to a server on this machine, and ignores the host.
 *
 * @throws {Error} whose message continues a sentence that begins with the setting's name
 */
export function parseTarget(text: string): Target {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['mysql:', 'mariadb:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('must look like mysql://user:password@host:3306/nth')
  }
  const database = decodeURIComponent(url.pathname.slice(1))
  if (database === '' || database.includes('/')) {
    throw new Error('must name one database: mysql://user:password@host:3306/nth')
  }
  const user = decodeURIComponent(url.username) || 'root'
  const password = decodeURIComponent(url.password)
  for (const [name, value] of url.searchParams) {
    if (name === 'socketPath' || (name === 'ssl' && ['true', 'false'].includes(value))) continue
    throw new Error(
      `has the unknown parameter "${name}=${value}"; supported: ssl=true, ssl=false, socketPath=…`,
    )
  }
  const { socketPath, ssl } = Object.fromEntries(url.searchParams)
  if (socketPath !== undefined) return { socketPath, user, password, database }
  return {
    // An IPv6 address has brackets in a URL, but not in a socket address.
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port || 3306),
    user,
    password,
    database,
    ...(ssl === 'true' && { ssl: {} }),
  }
}

/** A target as shown to an operator, without its password. */
export function describeTarget({ host, port, socketPath, database }: Target): string {
  return socketPath ? `${database} at ${socketPath}` : `${database} at ${host}:${port}`
}
