import type { Fault } from '../names.ts'

/** Why a text is neither an origin nor `*`; undefined: it is one. */
export function originFault(text: string): Fault | undefined {
  if (text === '*' || isOrigin(text)) return undefined
  return { message: 'must be an origin such as https://shop.example, without a path, or *' }
}

/** Whether a text is an origin as browsers send it: no path, no trailing slash, no default port. */
export function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text
}
