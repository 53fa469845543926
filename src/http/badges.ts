/*
 * Badges: images of a number, for places where no code runs, such as a README. They are read with the rights of whoever
 * requests them, mostly nobody's, and never count.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { makeBadge } from 'badge-maker'
import cssColors from 'color-name'
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
export const MAX_SHOWN = 64

const VARY = ['vary', 'Origin, Authorization']

/** If an image contained a script, it would not run. */
const SAFE = ['x-content-type-options', 'nosniff', 'content-security-policy', "default-src 'none'"]

/** What strings of XML can't contain (XML 1.0, 2.2). */
const NOT_XML = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu

/** Characters whose widths badge-maker has as Verdana draws them: Latin, Greek, Cyrillic, and their punctuation. */
const MEASURED =
  /^[ -~\u00A0-\u02FF\u0370-\u0482\u048A-\u052F\u1E00-\u1FFF\u2010-\u2027\u202F-\u205E\u20A0-\u20BF]*$/

/** What is about as wide as a character that isn't measured. Any other is as wide as a dash, which is as wide as high. */
const WIDTHS: [RegExp, string][] = [
  [/[\p{Mn}\p{Me}\p{Cf}]/u, ''],
  [/[\p{scx=Arab}\p{scx=Hebr}]/u, '?'],
  [
    /[\p{scx=Armn}\p{scx=Beng}\p{scx=Deva}\p{scx=Ethi}\p{scx=Geor}\p{scx=Khmr}\p{scx=Knda}\p{scx=Laoo}\p{scx=Telu}\p{scx=Thai}]/u,
    '0',
  ],
]
const EMOJI = /\p{Emoji_Presentation}|\uFE0F/u

/** Begins what is drawn in place of a label; twice, in place of a message. It has no width. */
const STAND_IN = '\x7F'

const CHARACTERS = new Intl.Segmenter()

/** A slash in a namespace is percent-encoded. One in a name may be: some proxies decode it. */
export const BADGE_PATH = /^\/badge\/(counter|sequence)\/([^/]*)\/(.*)\.(svg|json)$/

/** Colors that Shields names, some of them otherwise than CSS, and those of CSS (Color 4, 6.1). */
const SHIELDS_COLORS =
  'brightgreen green yellowgreen yellow orange red blue grey gray lightgrey lightgray success important critical informational inactive'
const COLORS = [...SHIELDS_COLORS.split(' '), ...Object.keys(cssColors)]
const COLOR = new RegExp(`^(#?([\\da-f]{3}){1,2}|${COLORS.join('|')})$`)
const ORDINALS = new Intl.PluralRules('en', { type: 'ordinal' })
const SUFFIXES = { zero: 'th', one: 'st', two: 'nd', few: 'rd', many: 'th', other: 'th' }

const STYLES = ['flat', 'flat-square', 'plastic', 'for-the-badge', 'social'] as const

/** Parameters of badges of Shields that have no effect here, so that an address from there works. */
const SHIELDS_ONLY = new Set(
  'cacheSeconds link logo logoColor logoSize logoWidth logoPosition maxAge namedLogo logoSvg'.split(' '),
)

/** The message of each check is what is supported. */
const text = z.string().refine((written) => !textFault(written), '191 characters, no control characters')
const color = z
  .string()
  .toLowerCase()
  .regex(COLOR, `six hexadecimal digits, names of CSS, ${SHIELDS_COLORS.replaceAll(' ', ', ')}`)
const flag = z
  .enum(['', 'true'], 'no value, or true')
  .transform(() => true)
  .default(false)
const appearance = {
  label: text.optional(),
  color: color.default('blue'),
  labelColor: color.optional(),
  // Shields draws its former styles as these, too.
  style: z
    .string()
    .transform((style) => style.replace(/^popout/, 'flat'))
    .pipe(z.enum(STYLES, STYLES.join(', ')))
    .default('flat'),
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
  left: flag,
  ordinal: flag,
})
  .refine(({ left, period, ordinal }) => !left || !(period || ordinal), {
    path: ['left'],
    message: 'without period and ordinal',
  })
  .refine(({ ordinal, format, locale }) => !ordinal || (!format && isEnglish(locale)), {
    path: ['ordinal'],
    message: 'in English, without format',
  })
const sequenceParameters = parameters({ ...appearance, group: text.default('') })

function parameters<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, Object.keys(shape).join(', '))
}

function isEnglish(locale: string): boolean {
  return /^en(-|$)/i.test(locale)
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
  const given = [...queryOf(request)].filter(([name]) => !SHIELDS_ONLY.has(name))
  const { data, error } = schema.safeParse(Object.fromEntries(given))
  if (data) return data
  const [issue] = error?.issues ?? []
  const fault =
    issue?.code === 'unrecognized_keys'
      ? `Unknown parameter "${clipped(issue.keys[0] ?? '')}"`
      : `Invalid ${String(issue?.path[0])}`
  throw new NthError('BAD_USER_INPUT', `${fault}; supported: ${issue?.message}`)
}

/** What a badge shows, as in the endpoint form of Shields. */
interface Badge {
  label: string
  message: string
  color: string
  labelColor?: string | undefined
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
      const { group, label = name, ...appearance } = parse(sequenceParameters, request)
      const { lastFormatted } = await nth.sequences.readSequenceGroup({ namespace, sequence: name, group })
      return { label, message: lastFormatted ?? 'none', ...appearance }
    }
    const given = parse(counterParameters, request)
    const { period, left, label = name, format, locale, ordinal, ...appearance } = given
    const counter = await nth.counters.read({ namespace, name })
    const { format: write } = new Intl.NumberFormat([locale, 'en'], { notation: format ?? 'standard' })
    if (left) {
      const maxValue = counter.definition?.maxValue ?? null
      if (maxValue === null) throw new NthError('BAD_USER_INPUT', 'This counter has no maxValue.')
      // The difference of two safe integers may be none.
      const remaining = write(BigInt(maxValue) - BigInt(counter.value) - BigInt(counter.held))
      return { label, message: isEnglish(locale) ? `${remaining} left` : remaining, ...appearance }
    }
    const number = period ? await nth.counters.valueIn(counter, period, undefined, owner) : counter.value
    if (number === null) throw new NthError('BAD_USER_INPUT', 'This period is not tracked.')
    const suffix = ordinal ? SUFFIXES[ORDINALS.select(number)] : ''
    return { label, message: `${write(number)}${suffix}`, ...appearance }
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

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new NthError('BAD_USER_INPUT', 'The address is not percent-encoded UTF-8.')
  }
}

/** A text, or so much of it as fits into an image, without a part of a character. */
function clipped(text: string): string {
  return text.length <= MAX_SHOWN
    ? text
    : `${text.slice(0, CHARACTERS.segment(text).containing(MAX_SHOWN)?.index)}…`
}

/**
 * A text of about the same width, all of whose characters are measured: badge-maker takes any other one for an m. Marks
 * have no width. The digits and signs here have no capitals, which "for-the-badge" would draw.
 */
function standIn(text: string): string {
  const likeOne = (character: string) => WIDTHS.find(([pattern]) => pattern.test(character))?.[1] ?? '—'
  return Array.from(CHARACTERS.segment(text), ({ segment }) =>
    EMOJI.test(segment)
      ? '—.'
      : segment.replace(/./gsu, (part) => (MEASURED.test(part) ? part : likeOne(part))),
  ).join('')
}

/** Draws a badge as an image, whose title is the whole text. */
function draw({ color, labelColor, style, ...badge }: Badge): string {
  const label = badge.label.replace(NOT_XML, '\uFFFD')
  const message = badge.message.replace(NOT_XML, '\uFFFD')
  const title = escaped(label === '' ? message : `${label}: ${message}`)
  const texts = [clipped(label.normalize()), clipped(message.normalize())]
  const [left = '', right = ''] = texts.map((text, index) =>
    MEASURED.test(text) ? text : STAND_IN.repeat(index + 1) + standIn(text),
  )
  return (
    makeBadge({ label: left, message: right, color, style, ...(label && labelColor && { labelColor }) })
      // Without a length, to which a browser would stretch it: joined letters would come apart.
      .replace(/ textLength="[^"]*"([^>]*>)(\x7F+)[^<]*/g, (_, rest: string, { length }: string) => {
        const text = texts[length - 1] ?? ''
        return ` unicode-bidi="plaintext"${rest}${escaped(style === 'for-the-badge' ? text.toUpperCase() : text)}`
      })
      .replace(/ aria-label="[^"]*"/, () => ` aria-label="${title}"`)
      .replace(/<title>[^<]*/, () => `<title>${title}`)
  )
}
