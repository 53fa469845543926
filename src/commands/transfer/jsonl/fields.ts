import { z } from 'zod'
import { MAX_KEEP_DAYS, MAX_SLOTS } from '../../../core/counters/definition.ts'
import { type Fault, nameFault, textFault } from '../../../core/names.ts'
import { PERIODS, timeZoneNamed } from '../../../core/time/calendar.ts'

/** Parts of the lines of an export. */
export const name = text(nameFault)
export const textOrEmpty = text(textFault)
export const integer = z.int()
export const integerOrNull = z.int().nullable()
export const flag = z.boolean()
export const period = z.enum(PERIODS)
export const token = z.string().regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')

export const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')

/** What follows the latest `datetime` that databases store. */
const END = Date.UTC(10_000, 0)

export const instant = z.string().transform((written, context) => {
  const at = Date.parse(written)
  if (at >= 0 && at < END) return new Date(at)
  context.addIssue('must be a time such as 2026-11-20T23:02:00.000Z')
  return z.NEVER
})

/** A time as seconds since 1970. */
export const startSecond = z.string().transform((written, context) => {
  const second = Date.parse(written) / 1000
  if (Number.isInteger(second) && second >= 0 && second < 2 ** 32) return second
  context.addIssue('must be the start of a period, such as 2026-11-20T23:00:00Z')
  return z.NEVER
})

const MAX_TOTAL = 2n ** 63n

/** An integer of 64 bits; beyond the safe range as a string. */
export const total = z.union([z.int(), z.string().regex(/^-?\d{1,19}$/)]).transform((written, context) => {
  const value = BigInt(written)
  if (value > -MAX_TOTAL && value < MAX_TOTAL) return value
  context.addIssue('must be an integer of 64 bits')
  return z.NEVER
})

/** Checking the name of a zone takes longer than all else in a line. */
const knownZones = new Set<string>()

export const timeZone = z.string().refine((written) => {
  if (knownZones.has(written)) return true
  const isZone = timeZoneNamed(written) === written
  if (isZone && knownZones.size < 1000) knownZones.add(written)
  return isZone
}, 'must be the name of an IANA time zone, such as Europe/Berlin')

export const trackedPeriods = z
  .array(
    z.object({
      period,
      keepDays: z.int().min(1).max(MAX_KEEP_DAYS).nullable(),
      since: instant.nullable().transform((at) => at?.getTime() ?? null),
    }),
  )
  .max(PERIODS.length)
  .refine(
    (tracked) => new Set(tracked.map(({ period }) => period)).size === tracked.length,
    'repeats a period',
  )
  .transform((tracked) => tracked.toSorted((a, b) => PERIODS.indexOf(a.period) - PERIODS.indexOf(b.period)))

export const counterDefinition = z
  .object({
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

export const sequenceDefinition = z.object({
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

export const pastFormat = z.object({
  format: textOrEmpty.nullable(),
  restartEvery: period.nullable(),
  isDescending: flag,
  isSigned: flag,
  groups: z.object({ isNamed: flag, isUnnamed: flag }),
  isMixed: flag,
})

function text(faultOf: (text: string) => Fault | undefined) {
  return z.string().superRefine((written, context) => {
    const fault = faultOf(written)
    if (fault) context.addIssue(fault.message)
  })
}
