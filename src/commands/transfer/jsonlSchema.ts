import { z } from 'zod'
import { type Grant, grantFault, MAX_GRANTS, SCOPES } from '../../core/access/grants.ts'
import { originFault } from '../../core/access/origins.ts'
import { PERIODS } from '../../core/time/calendar.ts'
import type { Entry } from '../../core/transfer/entries.ts'
import {
  counterDefinition,
  distinct,
  expiry,
  flag,
  formatted,
  history,
  instant,
  integer,
  integerOrNull,
  name,
  pastFormat,
  sequenceDefinition,
  sha256,
  textOrEmpty,
  timeZone,
  token,
  trackedPeriods,
  unsigned,
} from './jsonlFields.ts'

const groupKey = { namespace: name, sequence: name, group: textOrEmpty }
const periods = distinct(
  z.strictObject({
    period: unsigned,
    lastValue: integerOrNull,
    nextValue: integerOrNull,
    generation: unsigned,
    createdAt: instant.nullable(),
    updatedAt: instant.nullable(),
  }),
  ({ period }) => period,
)

const grant = z
  .strictObject({
    scopes: z.array(z.enum(SCOPES)),
    namespace: z.string().nullable(),
    names: z.array(z.string()).nullable(),
    prefix: z.string(),
    maxDelta: integer,
    maxCount: integer,
  })
  .superRefine((parsed: Grant, context) => {
    const fault = grantFault(parsed)
    if (fault) context.addIssue({ code: 'custom', path: fault.path, message: fault.message })
  })

const origin = z.string().superRefine((written, context) => {
  const fault = originFault(written)
  if (fault) context.addIssue(fault.message)
})

const apiKeyLine = z.strictObject({
  type: z.literal('apiKey'),
  // Later ones must have room for theirs.
  id: z
    .int()
    .min(1)
    .max(2 ** 40),
  hash: sha256,
  prefix: z.string().regex(/^[\x21-\x7e]{1,16}$/, 'must be 1 to 16 ASCII characters'),
  label: name,
  grants: z.array(grant).min(1).max(MAX_GRANTS),
  origins: z.array(origin).nullable(),
  perMinute: z
    .int()
    .min(1)
    .max(2 ** 32 - 1)
    .nullable(),
  createdAt: instant,
  expiresAt: expiry.nullable(),
  revokedAt: instant.nullable(),
  lastUsedAt: instant.nullable(),
})

/** Results as `idempotencyKeys.ts` stores them: of a counter a list, of a sequence an object. */
const result = z.union([
  z.tuple([integer, integer, integerOrNull]).rest(z.partialRecord(z.enum(PERIODS), integer)),
  z.looseObject({ kind: z.enum(['numbers', 'restart', 'reservation']) }),
])

const idempotencyKeyLine = z.strictObject({
  type: z.literal('idempotencyKey'),
  hash: sha256,
  fingerprint: sha256,
  appliedAt: instant,
  claimedAt: instant,
  results: z.array(result),
})

const line = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('namespace'), name, timeZone, periods: trackedPeriods }),
  z.strictObject({
    type: z.literal('counter'),
    namespace: name,
    name,
    value: integer,
    definition: counterDefinition.optional(),
    createdAt: instant.optional(),
    updatedAt: instant.nullable().optional(),
    history: history.default([]),
  }),
  z.strictObject({ type: z.literal('counterHistory'), namespace: name, name, timeZone, history }),
  z.strictObject({
    type: z.literal('sequence'),
    namespace: name,
    name,
    definition: sequenceDefinition,
    isDefined: flag,
    formatHistory: z.array(pastFormat),
    createdAt: instant,
  }),
  z.strictObject({
    type: z.literal('sequenceGroup'),
    ...groupKey,
    latest: z
      .strictObject({
        period: unsigned,
        // That of `periods` is imported.
        lastValue: integerOrNull.optional(),
        format: textOrEmpty.nullable(),
        timeZone,
        isCurrent: flag,
      })
      .nullable(),
    periods,
  }),
  z.strictObject({ type: z.literal('sequenceGroupPeriods'), ...groupKey, periods }),
  z.strictObject({
    type: z.literal('reservation'),
    ...groupKey,
    token,
    period: unsigned,
    generation: unsigned,
    value: integer,
    formatted,
    state: z.enum(['RESERVED', 'CONFIRMED', 'RELEASED', 'EXPIRED']),
    isFree: flag,
    expiresAt: instant,
    closedAt: instant.nullable(),
  }),
  apiKeyLine,
  idempotencyKeyLine,
  z.strictObject({ type: z.literal('end'), lines: z.int() }),
])

export const header = z.strictObject({
  type: z.literal('nth'),
  formatVersion: z.int(),
  version: z.string().optional(),
  at: instant,
})

/**
 * What a line has: an entry, or if it is the last one, the number of lines between the first and itself.
 *
 * @throws {Error} saying what is wrong with it
 */
export function entryIn(fields: unknown): Entry | { type: 'end'; lines: number } {
  const { data, error } = line.safeParse(fields)
  if (data) return data
  const [issue] = error?.issues ?? []
  const isUnknown = issue?.code === 'invalid_union' && issue.path[0] === 'type'
  if (isUnknown) throw new Error('it has no known type')
  const path = issue?.path.join('.') || 'it'
  if (issue?.code === 'unrecognized_keys')
    throw new Error(
      `${path} has an unknown member ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`,
    )
  throw new Error(`${path}: ${issue?.message}`)
}
