import { z } from 'zod'
import { PERIODS } from '../../../core/time/calendar.ts'
import type { Entry, PeriodTotal } from '../../../core/transfer/entries.ts'
import {
  counterDefinition,
  flag,
  instant,
  integer,
  integerOrNull,
  name,
  pastFormat,
  sequenceDefinition,
  startSecond,
  textOrEmpty,
  timeZone,
  token,
  total,
  trackedPeriods,
} from './fields.ts'
import { apiKeyLine, idempotencyKeyLine } from './keyLines.ts'

const history = z
  .partialRecord(z.enum(PERIODS), z.array(z.tuple([startSecond, total])))
  .transform((listed): PeriodTotal[] =>
    PERIODS.flatMap((period) => (listed[period] ?? []).map(([start, value]) => ({ period, start, value }))),
  )

const groupKey = { namespace: name, sequence: name, group: textOrEmpty }
const periods = z.array(
  z.object({
    period: z
      .int()
      .min(0)
      .max(2 ** 32 - 1),
    lastValue: integerOrNull,
    nextValue: integerOrNull,
    generation: z
      .int()
      .min(0)
      .max(2 ** 32 - 1),
    createdAt: instant.nullable(),
    updatedAt: instant.nullable(),
  }),
)

const line = z.discriminatedUnion('type', [
  z.object({ type: z.literal('namespace'), name, timeZone, periods: trackedPeriods }),
  z.object({
    type: z.literal('counter'),
    namespace: name,
    name,
    value: integer,
    definition: counterDefinition.optional(),
    createdAt: instant.optional(),
    updatedAt: instant.nullable().optional(),
    history: history.default([]),
  }),
  z.object({ type: z.literal('counterHistory'), namespace: name, name, timeZone, history }),
  z.object({
    type: z.literal('sequence'),
    namespace: name,
    name,
    definition: sequenceDefinition,
    isDefined: flag,
    formatHistory: z.array(pastFormat),
    createdAt: instant,
  }),
  z.object({
    type: z.literal('sequenceGroup'),
    ...groupKey,
    latest: z
      .object({ period: integer, format: textOrEmpty.nullable(), timeZone, isCurrent: flag })
      .nullable(),
    periods,
  }),
  z.object({ type: z.literal('sequenceGroupPeriods'), ...groupKey, periods }),
  z.object({
    type: z.literal('reservation'),
    ...groupKey,
    token,
    period: z.int().min(0),
    generation: z.int().min(0),
    value: integer,
    formatted: z.string(),
    state: z.enum(['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']),
    isFree: flag,
    expiresAt: instant,
    closedAt: instant.nullable(),
  }),
  apiKeyLine,
  idempotencyKeyLine,
])

export const header = z.object({ type: z.literal('nth'), formatVersion: z.int(), at: instant })
export const end = z.object({ type: z.literal('end'), lines: z.int() })

/** @throws {Error} saying what is wrong with it */
export function entryIn(fields: unknown): Entry {
  const { data, error } = line.safeParse(fields)
  if (data) return data
  const [issue] = error?.issues ?? []
  const isUnknown = issue?.code === 'invalid_union' && issue.path[0] === 'type'
  if (isUnknown) throw new Error('it has no known type')
  throw new Error(`${issue?.path.join('.') || 'it'}: ${issue?.message}`)
}
