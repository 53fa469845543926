import { z } from 'zod'
import { MAX_KEEP_DAYS, MAX_SLOTS } from '../../core/counters/definition.ts'
import { type Fault, nameFault, textFault } from '../../core/names.ts'
import { PERIODS, timeZoneNamed } from '../../core/time/calendar.ts'
import type { PeriodTotal } from '../../core/transfer/entries.ts'

/** Parts of the lines of an export. */
export const name = text(nameFault)
export const textOrEmpty = text(textFault)
export const integer = z.int()
export const integerOrNull = z.int().nullable()
export const flag = z.boolean()
export const period = z.enum(PERIODS)
export const token = z.string().regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')

export const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')

/** An integer of 32 bits without a sign, as periods and generations are stored. */
export const unsigned = z
  .int()
  .min(0)
  .max(2 ** 32 - 1)

/** The text of a number. It has its format, and the name of its sequence group. */
export const formatted = z
  .string()
  .max(4000)
  .refine((written) => written.isWellFormed(), 'must be well-formed Unicode')

/** A later time is a mistake, as of a wrong unit. */
export const instant = instantBefore(9000)

/** API keys of 0.2.0 could expire at any time that a database stores. */
export const expiry = instantBefore(10_000)

function instantBefore(year: number) {
  return z.string().transform((written, context) => {
    const at = timeIn(written)
    if (at >= 0 && at < Date.UTC(year, 0)) return new Date(at)
    context.addIssue(`must be a time from 1970 to ${year - 1}, such as 2026-11-20T23:02:00.000Z`)
    return z.NEVER
  })
}

const TIME = /^\d{4}-\d\d-(\d\d)T\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/

/** In milliseconds since 1970; NaN: it is none. `Date.parse` alone also takes local times, and 30 February for 2 March. */
function timeIn(written: string): number {
  const day = TIME.exec(written)?.[1]
  const at = day === undefined ? Number.NaN : Date.parse(written)
  return new Date(at).getUTCDate() === Number(day) ? at : Number.NaN
}

/** A time as seconds since 1970. */
const startSecond = z.string().transform((written, context) => {
  const second = timeIn(written) / 1000
  if (Number.isInteger(second) && second >= 0 && second < 2 ** 32) return second
  context.addIssue('must be the start of a period, such as 2026-11-20T23:00:00Z')
  return z.NEVER
})

/** A list whose items have different keys: of two with the same one, the last would silently count. */
export function distinct<Item extends z.ZodType>(item: Item, keyOf: (parsed: z.output<Item>) => unknown) {
  return z
    .array(item)
    .refine(
      (items) => items.length < 2 || new Set(items.map(keyOf)).size === items.length,
      'repeats a period',
    )
}

const MAX_TOTAL = 2n ** 63n

/** An integer of 64 bits; beyond the safe range as a string. */
const total = z.union([z.int(), z.string().regex(/^-?\d{1,19}$/)]).transform((written, context) => {
  const value = BigInt(written)
  if (value > -MAX_TOTAL && value < MAX_TOTAL) return value
  context.addIssue('must be an integer of 64 bits')
  return z.NEVER
})

/** What was added in each period. */
export const history = z
  .partialRecord(
    z.enum(PERIODS),
    distinct(z.tuple([startSecond, total]), ([start]) => start),
  )
  .transform((listed): PeriodTotal[] =>
    PERIODS.flatMap((period) => (listed[period] ?? []).map(([start, value]) => ({ period, start, value }))),
  )

/** Checking the name of a zone takes longer than all else in a line. */
const knownZones = new Set<string>()

export const timeZone = z.string().refine((written) => {
  if (knownZones.has(written)) return true
  const isZone = timeZoneNamed(written) === written
  if (isZone && knownZones.size < 1000) knownZones.add(written)
  return isZone
}, 'must be the name of an IANA time zone, such as Europe/Berlin')

export const trackedPeriods = distinct(
  z.strictObject({
    period,
    keepDays: z.int().min(1).max(MAX_KEEP_DAYS).nullable(),
    since: instant.nullable().transform((at) => at?.getTime() ?? null),
  }),
  ({ period }) => period,
).transform((tracked) => tracked.toSorted((a, b) => PERIODS.indexOf(a.period) - PERIODS.indexOf(b.period)))

export const counterDefinition = z
  .strictObject({
    minValue: integerOrNull,
    maxValue: integerOrNull,
    overflow: z.enum(['REJECT', 'SATURATE']),
    slots: z.int().min(1).max(MAX_SLOTS),
    timeZone,
    periods: trackedPeriods,
  })
  .refine(
    ({ minValue, maxValue }) =>
      (minValue ?? Number.NEGATIVE_INFINITY) <= (maxValue ?? Number.POSITIVE_INFINITY),
    'minValue must not exceed maxValue',
  )
  .refine(
    ({ minValue, maxValue, slots }) => slots === 1 || (minValue === null && maxValue === null),
    'a counter with slots cannot have bounds',
  )
  .transform(({ minValue, maxValue, overflow, ...rest }) => {
    const isBounded = minValue !== null || maxValue !== null || overflow === 'SATURATE'
    return { ...rest, bounds: isBounded ? { minValue, maxValue, overflow } : undefined }
  })

export const sequenceDefinition = z.strictObject({
  startValue: integer,
  step: integer,
  minValue: integerOrNull,
  maxValue: integerOrNull,
  cycle: flag,
  format: textOrEmpty.nullable(),
  restartEvery: period.nullable(),
  allowRepeats: flag,
  timeZone,
  gapless: flag,
})

export const pastFormat = z.strictObject({
  format: textOrEmpty.nullable(),
  restartEvery: period.nullable(),
  isDescending: flag,
  isSigned: flag,
  groups: z.strictObject({ isNamed: flag, isUnnamed: flag }),
  isMixed: flag,
})

function text(faultOf: (text: string) => Fault | undefined) {
  return z.string().superRefine((written, context) => {
    const fault = faultOf(written)
    if (fault) context.addIssue(fault.message)
  })
}
