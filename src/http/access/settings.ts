import type { Scope } from '../../rules/rights.ts'

/** Who may call, as configured. */
export interface AccessSettings {
  /** The administrator's key. */
  adminKey?: string | undefined
  /** What callers without credentials may do, everywhere. */
  anonymous?: readonly Scope[] | undefined
  /** Origin under which the server's own pages are reached, if a proxy changes it. */
  publicOrigin?: string | undefined
  /** Networks of proxies whose `X-Forwarded-For` is trusted, as CIDR blocks. */
  trustedProxies?: readonly string[]
  /** Maximum changes a minute from one address, without credentials; undefined: unlimited. */
  anonymousPerMinute?: number | undefined
  /** The same with a browser key that has no limit of its own. */
  browserPerMinute?: number
  tokens?: TokenSettings | undefined
}

/** JSON Web Tokens that are accepted. */
export interface TokenSettings {
  issuer: string
  audience: string
  /** Where the issuer publishes its keys. */
  jwksUrl: string
}

/** Whether anyone may do everything, if the server is reachable from this machine only. */
export function isUnprotected({ adminKey, anonymous }: AccessSettings): boolean {
  return adminKey === undefined && anonymous === undefined
}
