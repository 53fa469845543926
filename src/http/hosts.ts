import { NthError } from '../core/errors.ts'
import { remember } from './remember.ts'

/** The names of this machine for itself. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/** Who may call from a browser. */
export interface Access {
  /** Origins whose pages may call; `*` is any. */
  allowedOrigins: readonly string[]
  /** Whether only this machine reaches the server; then its own pages may call, too. */
  onLoopback: boolean
}

/** Why a request that came by some name isn't answered, and the status that says so. */
export interface HostRefusal {
  status: number
  error: NthError
}

/**
 * Makes the check of the Host header: `undefined` if it is a name that the server goes by. A page of anywhere
 * can have its own name lead to this machine (DNS rebinding) and then call without asking, as if it were the
 * server's own page. So a server on loopback answers to this machine's names, and to those of the origins
 * that may call.
 */
export function openHosts({ allowedOrigins, onLoopback }: Access): (host: string) => HostRefusal | undefined {
  const isAnyAllowed = !onLoopback || allowedOrigins.includes('*')
  const origins = isAnyAllowed ? [] : allowedOrigins
  const names = new Set([...LOOPBACK_NAMES, ...origins.map((origin) => new URL(origin).hostname)])

  return remember((host) => {
    const hostname = hostnameOf(host)
    // Yoga makes a URL of it, and answers with a stack trace where that fails.
    if (hostname === undefined) {
      return { status: 400, error: new NthError('BAD_REQUEST', 'The Host header is not a host.') }
    }
    if (isAnyAllowed || names.has(hostname)) return undefined
    const message = `This server does not go by the name ${hostname}. Allow its pages with NTH_ALLOWED_ORIGINS.`
    return { status: 403, error: new NthError('FORBIDDEN', message) }
  })
}

/** Whether a server that listens at a host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function hostnameOf(host: string): string | undefined {
  // More than a name and a port would be taken for other parts of the URL.
  if (/[\s/\\?#@]/.test(host)) return undefined
  try {
    return new URL(`http://${host}`).hostname
  } catch {
    return undefined
  }
}
