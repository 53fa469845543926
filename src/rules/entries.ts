import { z } from 'zod'
import { PERIODS, type Period, timeZoneNamed } from './calendar.ts'
import { crossed, finestFirst, MAX_KEEP_DAYS, MAX_SLOTS, type TrackedPeriod } from './counter.ts'
import { NthError } from './errors.ts'
import { parseFormat } from './format.ts'
import { type Fault, nameFault, textFault } from './names.ts'
import { type Grant, grantFault, MAX_GRANTS, originFault, SCOPES } from './rights.ts'
import { changedSequenceDefinition, pastFormatsOf, UNUSED } from './sequenceDefinition.ts'
import { documentIdFault } from './trustedDocument.ts'

/** Format of the lines. A file of a later one is refused. A file without subjects has the one before. */
export const FORMAT_VERSION = 2

/** What was added to a counter in a period. `start`: in seconds since 1970. May be beyond the safe range. */
export interface StoredPeriodTotal {
  period: Period
  start: number
  value: bigint
}

function text(faultOf: (text: string) => Fault | undefined) {
  return z.string().superRefine((written, context) => {
    const fault = faultOf(written)
    if (fault) context.addIssue(fault.message)
  })
}

/** Parts of the lines of an export. */
const name = text(nameFault)
const textOrEmpty = text(textFault)
const integer = z.int()
const integerOrNull = z.int().nullable()
const flag = z.boolean()
const period = z.enum(PERIODS)
const between = (min: number, max: number) => z.int().min(min).max(max)

/** An integer of 32 bits without a sign, as periods and generations are stored. */
const unsigned = between(0, 2 ** 32 - 1)

const hexadecimal = (digits: number) =>
  z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`), `must be ${digits} hexadecimal digits`)
const sha256 = hexadecimal(64)

/** The hash of a subject, or what it is hashed with. */
const digits32 = hexadecimal(32)

const valuesIn = z.partialRecord(period, integer)

/** Subjects with what their first calls returned. */
function subjects<Shape extends z.ZodRawShape>(others: Shape) {
  return z.array(z.strictObject({ subject: digits32, value: integer, ...others })).min(1)
}

/** The text of a number. It has its format, and the name of its sequence group. */
const formatted = z
  .string()
  .max(4000)
  .refine((written) => written.isWellFormed(), 'must be well-formed Unicode')

const TIME = 'must be a time from 1970 to 9999, such as 2026-11-20T23:02:00.000Z'

const instant = z.iso
  .datetime(TIME)
  .transform((written) => new Date(written))
  .refine((at) => at.getTime() >= 0, TIME)

const NO_START = 'must be the start of a period, such as 2026-11-20T23:00:00Z'

/** A time as seconds since 1970. */
const startSecond = z.iso
  .datetime(NO_START)
  .transform((written) => Date.parse(written) / 1000)
  .refine((second) => Number.isInteger(second) && second >= 0 && second < 2 ** 32, NO_START)

/** A list whose items have different keys: of two with the same one, the last would silently count. */
function distinct<Item extends z.ZodType>(item: Item, keyOf: (parsed: z.output<Item>) => unknown) {
  const isDistinct = (items: z.output<Item>[]) => new Set(items.map(keyOf)).size === items.length
  return z.array(item).refine(isDistinct, 'repeats a period')
}

const MAX_TOTAL = 2n ** 63n

/** An integer of 64 bits; beyond the safe range as a string. */
const total = z
  .union([z.int(), z.string().regex(/^-?\d{1,19}$/)])
  .transform((written) => BigInt(written))
  .refine((value) => value > -MAX_TOTAL && value < MAX_TOTAL, 'must be an integer of 64 bits')

const totals = distinct(z.tuple([startSecond, total]), ([start]) => start)
const history = z
  .partialRecord(period, totals)
  .transform((listed): readonly StoredPeriodTotal[] =>
    PERIODS.flatMap((period) => (listed[period] ?? []).map(([start, value]) => ({ period, start, value }))),
  )

const NO_ZONE = 'must be the name of an IANA time zone, such as Europe/Berlin'

const timeZone = z.string().refine((written) => timeZoneNamed(written) === written, NO_ZONE)

const trackedPeriods = distinct(
  z.strictObject({
    period,
    keepDays: between(1, MAX_KEEP_DAYS).nullable(),
    since: instant.nullable().transform((at) => at?.getTime() ?? null),
  }),
  ({ period }) => period,
).transform((tracked): readonly TrackedPeriod[] => tracked.toSorted(finestFirst))

const counterDefinition = z
  .strictObject({
    minValue: integerOrNull,
    maxValue: integerOrNull,
    overflow: z.enum(['REJECT', 'SATURATE']),
    // Missing if there are none, as earlier versions don't know it.
    maxIn: distinct(z.strictObject({ period, max: integer.nonnegative() }), ({ period }) => period)
      .readonly()
      .default([]),
    slots: between(1, MAX_SLOTS),
    // Earlier versions don't write it.
    oncePer: period.nullable().default(null),
    // Missing if it was never held.
    hasHolds: flag.default(false),
    timeZone,
    periods: trackedPeriods,
  })
  .refine(
    ({ minValue, maxValue }) => minValue === null || maxValue === null || minValue <= maxValue,
    'minValue must not exceed maxValue',
  )
  .refine(
    ({ minValue, maxValue, maxIn, slots }) =>
      slots === 1 || (minValue === null && maxValue === null && maxIn.length === 0),
    'a counter with slots cannot have bounds or limits',
  )
  .refine(
    ({ maxIn, periods }) => maxIn.every((limit) => periods.some(({ period }) => period === limit.period)),
    'the periods of maxIn must be tracked',
  )

const sequenceDefinition = z
  .strictObject({
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
  .superRefine((definition, context) => {
    const checked = changedSequenceDefinition({ ...UNUSED, definition }, definition)
    if (checked instanceof NthError) context.addIssue(checked.message.replace(/\. Nothing .*/, ''))
  })

const format = text((written) => {
  const parsed = parseFormat(written)
  return 'message' in parsed ? parsed : undefined
})

/** A past format, as earlier versions wrote it, becomes its skeletons. */
const pastFormat = z
  .strictObject({
    format: format.nullable(),
    restartEvery: period.nullable(),
    isDescending: flag,
    isSigned: flag,
    groups: z.strictObject({ isNamed: flag, isUnnamed: flag }),
    isMixed: flag,
  })
  .transform(pastFormatsOf)

const key = { namespace: name, name }
const groupKey = { namespace: name, sequence: name, group: textOrEmpty }

/** Position of a sequence group in a period, whose key is 0 if the sequence never restarts. */
const groupPeriod = z.strictObject({
  period: unsigned,
  // The last number issued; null: none yet.
  lastValue: integerOrNull,
  // The next number, if it doesn't follow from the last.
  nextValue: integerOrNull,
  generation: unsigned,
  createdAt: instant.nullable().optional(),
  updatedAt: instant.nullable().optional(),
})

export type GroupPeriod = z.output<typeof groupPeriod>

const periods = distinct(groupPeriod, ({ period }) => period)

/** The latest numbers of a sequence group, and with which definition they were issued. */
const latestNumbers = z.strictObject({
  period: unsigned,
  // It is in `periods`, too, which a reader of a single line may lack. An import doesn't need it.
  lastValue: integerOrNull.optional(),
  // Undefined: the sequence's own.
  format: textOrEmpty.nullable().optional(),
  timeZone: timeZone.optional(),
  // Whether the sequence was not redefined since.
  isCurrent: flag,
})

const grant = z
  .strictObject({
    scopes: z.array(z.enum(SCOPES)).readonly(),
    namespace: z.string().nullable(),
    names: z.array(z.string()).readonly().nullable(),
    prefix: z.string(),
    maxDelta: integer,
    maxCount: integer,
    // Files of 0.2.0 don't have it.
    onceOnly: flag.default(false),
  })
  .superRefine((parsed: Grant, context) => {
    const fault = grantFault(parsed)
    if (fault) context.addIssue({ code: 'custom', path: [...(fault.path ?? [])], message: fault.message })
  })

/** Results as `keyStatements.ts` stores them: of a counter a list, of a sequence an object. */
const result = z.union([
  // Of a hold: its token, and when it expires.
  z.tuple([digits32, integer]),
  z.tuple([integer, integer, integerOrNull, valuesIn.optional(), integerOrNull.optional()]),
  z.looseObject({ kind: z.enum(['numbers', 'restart', 'reservation']) }),
])

const line = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('namespace'),
    name,
    timeZone,
    periods: trackedPeriods,
    // Missing if there are none, as earlier versions don't know it.
    leaderboards: distinct(period, (chosen) => chosen)
      .readonly()
      .optional(),
  }),
  // From other systems only its value is known: undefined parts stay as they are.
  z
    .strictObject({
      type: z.literal('counter'),
      ...key,
      value: integer,
      definition: counterDefinition.optional(),
      createdAt: instant.optional(),
      updatedAt: instant.nullable().optional(),
      subjectSalt: digits32.optional(),
      // Missing if its holds were never judged.
      heldAt: instant.optional(),
      history: history.default([]),
    })
    .refine(({ definition, value }) => !definition || !crossed(definition, value), {
      path: ['value'],
      error: 'must be from minValue to maxValue of its definition',
    }),
  // More totals of a counter whose line would be too long with all. `timeZone`: its definition's.
  z.strictObject({ type: z.literal('counterHistory'), ...key, timeZone, history }),
  z.strictObject({
    type: z.literal('sequence'),
    ...key,
    definition: sequenceDefinition,
    // Whether it was ever defined.
    isDefined: flag,
    // Of earlier versions; later ones write the other two, where they say something.
    formatHistory: z.array(pastFormat).transform((lists) => lists.flat()),
    pastFormats: z.array(z.string()).readonly().optional(),
    hasMigratedRepeats: flag.optional(),
    createdAt: instant,
    subjectSalt: digits32.optional(),
  }),
  z.strictObject({
    type: z.literal('sequenceGroup'),
    ...groupKey,
    // Null: none issued yet.
    latest: latestNumbers.nullable(),
    periods,
  }),
  // More periods of a sequence group whose line would be too long with all.
  z.strictObject({ type: z.literal('sequenceGroupPeriods'), ...groupKey, periods }),
  z.strictObject({
    type: z.literal('reservation'),
    ...groupKey,
    token: hexadecimal(32),
    period: unsigned,
    generation: unsigned,
    value: integer,
    formatted,
    state: z.enum(['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']),
    isFree: flag,
    expiresAt: instant,
    closedAt: instant.nullable(),
  }),
  // The part of a hold on a counter.
  z.strictObject({
    type: z.literal('hold'),
    ...key,
    token: digits32,
    amount: integer,
    expiresAt: instant,
    latest: instant,
    state: z.enum(['RESERVED', 'CONFIRMED', 'RELEASED']),
    confirmed: z
      .strictObject({
        delta: integer,
        value: integer,
        previousValue: integer,
        appliedDelta: integerOrNull,
        valuesIn: valuesIn.optional(),
        at: integer,
      })
      .optional(),
  }),
  // Subjects that have counted. Period null and 1970: once ever.
  z.strictObject({
    type: z.literal('counterSubjects'),
    ...key,
    subjectSalt: digits32,
    period: period.nullable(),
    start: instant.refine((at) => at.getTime() < 1000 * 2 ** 32, NO_START),
    subjects: subjects({ at: instant, valuesIn }),
  }),
  z.strictObject({
    type: z.literal('sequenceGroupSubjects'),
    ...groupKey,
    subjectSalt: digits32,
    period: unsigned,
    subjects: subjects({ generation: unsigned, formatted, issuedAt: instant }),
  }),
  z.strictObject({
    type: z.literal('trustedDocument'),
    id: text(documentIdFault),
    text: z.string(),
    addedAt: instant,
  }),
  // Without its secret.
  z.strictObject({
    type: z.literal('apiKey'),
    // Later ones must have room for theirs.
    id: between(1, 2 ** 40),
    hash: sha256,
    prefix: z.string().regex(/^[\x21-\x7e]{1,16}$/, 'must be 1 to 16 ASCII characters'),
    label: name,
    grants: z.array(grant).min(1).max(MAX_GRANTS).readonly(),
    origins: z.array(text(originFault)).readonly().nullable(),
    perMinute: between(1, 2 ** 32 - 1).nullable(),
    // Files of 0.2.0 don't have it.
    documents: z.array(text(documentIdFault)).readonly().nullable().default(null),
    createdAt: instant,
    // Files of 0.2.0 have neither this nor `revokedBy`.
    createdBy: z.string().nullable().default(null),
    expiresAt: instant.nullable(),
    revokedAt: instant.nullable(),
    revokedBy: z.string().nullable().default(null),
    lastUsedAt: instant.nullable(),
  }),
  z.strictObject({
    type: z.literal('idempotencyKey'),
    hash: sha256,
    fingerprint: sha256,
    appliedAt: instant,
    // By the database's clock.
    claimedAt: instant,
    results: z.array(result),
  }),
  z.strictObject({ type: z.literal('end'), lines: z.int() }),
])

/**
 * What an export has a line for. Everything is identified by its names, a reservation by its token, keys by their hash.
 * Keys and trusted documents are in backups only.
 */
export type Entry = Exclude<z.output<typeof line>, { type: 'end' }>

export type EntryType = Entry['type']

export type EntryOf<Type extends EntryType> = Extract<Entry, { type: Type }>

export interface Placed {
  line: number
  entry: Entry
}

export const header = z.strictObject({
  type: z.literal('nth'),
  formatVersion: z.int(),
  version: z.string().optional(),
  at: instant,
  // Of a backup: the highest revision, if that is later than the time of the backup. Earlier versions don't know it.
  revision: between(0, 2 ** 52).optional(),
})

/**
 * What a line has: an entry, or if it is the last one, the number of lines between the first and itself.
 *
 * @throws {Error} saying what is wrong with it
 */
export function entryIn(fields: unknown): z.output<typeof line> {
  const { data, error } = line.safeParse(fields)
  if (data) return data
  const [issue] = error?.issues ?? []
  const isUnknown = issue?.code === 'invalid_union' && issue.path[0] === 'type'
  if (isUnknown) throw new Error('its type is unknown')
  const path = issue?.path.join('.') || 'it'
  if (issue?.code !== 'unrecognized_keys') throw new Error(`${path}: ${issue?.message}`)
  throw new Error(`${path} has an unknown member ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`)
}
