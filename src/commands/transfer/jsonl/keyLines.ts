import { z } from 'zod'
import { type Grant, grantFault, MAX_GRANTS, SCOPES } from '../../../core/access/grants.ts'
import { originFault } from '../../../core/access/origins.ts'
import { PERIODS } from '../../../core/time/calendar.ts'
import { instant, integer, integerOrNull, name, sha256 } from './fields.ts'

const instantOrNull = instant.nullable()

const grant = z
  .object({
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

export const apiKeyLine = z.object({
  type: z.literal('apiKey'),
  // Later ones must have room for theirs.
  id: z
    .int()
    .min(1)
    .max(2 ** 40),
  hash: sha256,
  prefix: z.string().min(1).max(16),
  label: name,
  grants: z.array(grant).min(1).max(MAX_GRANTS),
  origins: z.array(origin).nullable(),
  perMinute: z
    .int()
    .min(1)
    .max(2 ** 32 - 1)
    .nullable(),
  createdAt: instant,
  expiresAt: instantOrNull,
  revokedAt: instantOrNull,
  lastUsedAt: instantOrNull,
})

/** Results as `idempotencyKeys.ts` stores them: of a counter a list, of a sequence an object. */
const result = z.union([
  z.tuple([integer, integer, integerOrNull]).rest(z.partialRecord(z.enum(PERIODS), integer)),
  z.looseObject({ kind: z.enum(['numbers', 'restart', 'reservation']) }),
])

export const idempotencyKeyLine = z.object({
  type: z.literal('idempotencyKey'),
  hash: sha256,
  fingerprint: sha256,
  appliedAt: instant,
  claimedAt: instant,
  results: z.array(result),
})
