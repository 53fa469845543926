/*
 * Badges: images of a number, for places where no code runs, such as a README. They are read with the rights of whoever
 * requests them, mostly nobody's, and never count.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { makeBadge } from 'badge-maker'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { Notices } from '../operations/log.ts'
import type { Nth } from '../repository/nth.ts'
import { PERIODS } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import { faultAt, inputError, nameFault, textFault } from '../rules/names.ts'
import { isAllowed, refusal } from '../rules/rights.ts'
import type { Authenticate, Credential } from './authentication.ts'
import { isWrite, maskError, rejectWrite, reportFault, sendText, withHeaders } from './errors.ts'
import { escaped } from './pages.ts'
import { queryOf } from './parameters.ts'
import { hasTag } from './requests.ts'

/** How long caches may show a number, in seconds. */
const MAX_AGE_S = 60

/** Maximum cached images, of up to 10 kB each. Drawing takes half of a badge's 170 µs of processor time (Node 20). */
const MAX_IMAGES = 500

/** Maximum UTF-16 units of a text in an image. Each takes up to 11 pixels. */
const MAX_SHOWN = 64

const VARY = ['vary', 'Origin, Authorization']

/** If an image contained a script, it would not run. */
const SAFE = ['x-content-type-options', 'nosniff', 'content-security-policy', "default-src 'none'"]

/** What strings of XML can't contain (XML 1.0, 2.2). */
const NOT_XML = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu

/** A slash in a namespace is percent-encoded. One in a name may be: some proxies decode it. */
export const BADGE_PATH = /^\/badge\/(counter|sequence)\/([^/]*)\/(.*)\.(svg|json)$/

/** Colors by name, and styles, as Shields has them. */
const COLORS =
  'brightgreen green yellowgreen yellow orange red blue grey gray lightgrey lightgray success important critical informational inactive'
const COLOR = new RegExp(`^(#?([\\da-f]{3}){1,2}|${COLORS.replaceAll(' ', '|')})$`)
const STYLES = ['flat', 'flat-square', 'plastic', 'for-the-badge', 'social'] as const

/** The message of each check is what is supported. */
const text = z.string().refine((written) => !textFault(written), '191 characters, no control characters')
const appearance = {
  label: text.optional(),
  color: z.string().toLowerCase().regex(COLOR, `six hexadecimal digits, ${COLORS}`).default('blue'),
  style: z.enum(STYLES, STYLES.join(', ')).default('flat'),
}
const period = z
  .string()
  .toUpperCase()
  .pipe(z.enum(PERIODS, PERIODS.join(', ').toLowerCase()))
const counterParameters = parameters({
  ...appearance,
  period: period.optional(),
  format: z.literal('compact', 'compact').optional(),
  locale: z.string().refine(isLocale, 'languages such as de or pt-BR').default('en'),
})
const sequenceParameters = parameters({ ...appearance, group: text.default('') })

function parameters<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, Object.keys(shape).join(', '))
}

function isLocale(text: string): boolean {
  try {
    return Intl.getCanonicalLocales(text).length === 1
  } catch {
    return false
  }
}

/** The parameters in the address of a badge. */
function parse<Values>(schema: z.ZodType<Values>, request: IncomingMessage): Values {
  const { data, error } = schema.safeParse(Object.fromEntries(queryOf(request)))
  if (data) return data
  const [{ path: [name = 'parameter'] = [], message = '' } = {}] = error?.issues ?? []
  throw new NthError('BAD_USER_INPUT', `Invalid ${String(name)}; supported: ${message}`)
}

/** What a badge shows, as in the endpoint form of Shields. */
interface Badge {
  label: string
  message: string
  color: string
  style: (typeof STYLES)[number]
  isError?: true
}

/** Creates the function that answers requests for badges. */
export function createBadges(nth: Nth, authenticate: Authenticate, notices: Notices) {
  const images = new LRUCache({
    max: MAX_IMAGES,
    memoMethod: (_: string, _cached: string | undefined, { context }: { context: Badge }) => draw(context),
  })

  async function badgeFor(path: string, request: IncomingMessage, credential?: Credential): Promise<Badge> {
    const [, kind, ...parts] = BADGE_PATH.exec(path) ?? []
    const [namespace = '', name = ''] = parts.map(decoded)
    const fault = faultAt(['namespace'], nameFault(namespace)) ?? faultAt(['name'], nameFault(name))
    if (fault) throw inputError(fault)
    const { caller, owner } = await authenticate(request, credential)
    if (!isAllowed(caller, 'READ', { namespace, name })) throw refusal(caller, 'READ')
    if (kind === 'sequence') {
      const { group, label = name, color, style } = parse(sequenceParameters, request)
      const { lastFormatted } = await nth.sequences.readSequenceGroup({ namespace, sequence: name, group })
      return { label, message: lastFormatted ?? '0', color, style }
    }
    const { period, format, locale, label = name, color, style } = parse(counterParameters, request)
    const counter = await nth.counters.read({ namespace, name })
    const number = period ? await nth.counters.valueIn(counter, period, undefined, owner) : counter.value
    if (number === null) throw new NthError('BAD_USER_INPUT', 'This period is not tracked.')
    const numbers = new Intl.NumberFormat([locale, 'en'], { notation: format ?? 'standard' })
    return { label, message: numbers.format(number), color, style }
  }

  function refused(error: unknown): Badge {
    reportFault(error, notices)
    const { message } = maskError(error)
    return { label: 'Nth', message, color: 'lightgrey', style: 'flat', isError: true }
  }

  /**
   * Answers a request for a badge. What can't be shown is a badge that says why. Its status is 200: with another one,
   * Shields and the image proxies of GitHub and others would show no image.
   */
  return async (
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    credential: Credential | undefined,
  ): Promise<unknown> => {
    if (isWrite(request)) return rejectWrite(response, path)
    const badge = await badgeFor(path, request, credential).catch(refused)
    const [type, body] = path.endsWith('.svg')
      ? ['image/svg+xml', images.memo(JSON.stringify(badge), { context: badge })]
      : ['application/json', `${JSON.stringify({ schemaVersion: 1, ...badge })}\n`]
    const tag = `W/"${hash('sha1', body, 'base64url')}"`
    const cacheControl = badge.isError ? 'no-store' : `max-age=${MAX_AGE_S}`
    withHeaders(response, ['etag', tag, 'cache-control', cacheControl, ...VARY, ...SAFE])
    if (hasTag(request, tag)) return response.writeHead(304).end()
    return sendText(response, `${type}; charset=utf-8`, body)
  }
}

/** A part of the path of an address. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new NthError('BAD_USER_INPUT', 'The address is not percent-encoded UTF-8.')
  }
}

/** A text, or so much of it as fits into an image, without half of a surrogate pair. */
function clipped(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Draws a badge as an image, whose title is the whole text. */
function draw({ color, style, ...badge }: Badge): string {
  const label = badge.label.replace(NOT_XML, '\uFFFD')
  const message = badge.message.replace(NOT_XML, '\uFFFD')
  const title = escaped(label === '' ? message : `${label}: ${message}`)
  return makeBadge({ label: clipped(label), message: clipped(message), color, style })
    .replace(/ aria-label="[^"]*"/, () => ` aria-label="${title}"`)
    .replace(/<title>[^<]*/, () => `<title>${title}`)
}
