import type { GraphQLResolveInfo } from 'graphql'
import { type CallOptions, type CounterDelta, MAX_CHANGES } from '../repository/counters.ts'
import type { NamespaceChange } from '../repository/namespaces.ts'
import { FIRST_INSTANT, LAST_INSTANT, timeZoneNamed } from '../rules/calendar.ts'
import {
  type CounterKey,
  type DefinitionChange,
  MAX_KEEP_DAYS,
  MAX_SLOTS,
  type PeriodLimit,
  type RetentionChange,
} from '../rules/counter.ts'
import { claimOf, keyFault } from '../rules/idempotency.ts'
import {
  type Change,
  type Fault,
  faultAt,
  inputError,
  listOf,
  nameFault,
  rangeFault,
  splitNames,
  textFault,
} from '../rules/names.ts'
import { type Grant, grantFault, MAX_GRANTS, MAX_PER_MINUTE } from '../rules/rights.ts'
import type { SequenceGroupKey } from '../rules/sequence.ts'
import type { SequenceDefinitionChange } from '../rules/sequenceDefinition.ts'
import { documentIdFault } from '../rules/trustedDocument.ts'
import type { Context, Field, Resolver } from './context.ts'
import { measureBelow } from './selections.ts'

function tokenFault(token: string): Fault | undefined {
  return /^[0-9a-f]{32}$/.test(token) ? undefined : { message: 'is not a token' }
}

/** Types that have IDs, with the check for each name in an ID. */
const types: Partial<Record<string, Check<string>[]>> = {
  Namespace: [nameFault],
  Counter: [nameFault, nameFault],
  Sequence: [nameFault, nameFault],
  SequenceGroup: [nameFault, nameFault, textFault],
  ApiKey: [(id) => (/^[1-9]\d{0,14}$/.test(id) ? undefined : { message: 'is not a number' })],
  Reservation: [tokenFault],
  Hold: [tokenFault],
}

/** Creates an ID from a type and names. Base64url, so that it needs no escaping in a URL. */
export function encodeId(typename: string, names: string): string {
  return Buffer.from(`${typename}:${names}`, 'utf8').toString('base64url')
}

/** Splits an ID that passed `idFault`. */
export function decodeId(id: string): { typename: string; id: string } {
  const text = Buffer.from(id, 'base64url').toString('utf8')
  const colon = text.indexOf(':')
  return { typename: text.slice(0, colon), id: text.slice(colon + 1) }
}

/** The key in the names of a counter's or sequence's ID. */
export function keyOf(names: string): CounterKey {
  const [namespace = '', name = ''] = splitNames(names)
  return { namespace, name }
}

/** The key in the names of a sequence group's ID. */
export function sequenceGroupKeyOf(names: string): SequenceGroupKey {
  const [namespace = '', sequence = '', group = ''] = splitNames(names)
  return { namespace, sequence, group }
}

/** Longer than any ID: three names of 191 characters of up to 4 bytes make about 3 100 characters. */
const TOO_LONG = 4000

/** Why a text is not an ID, which means that `encodeId` did not create it; undefined: it is one. */
export function idFault(text: string): Fault | undefined {
  const { typename, id } = decodeId(text.slice(0, TOO_LONG))
  const names = splitNames(id)
  const faults = Object.hasOwn(types, typename) ? types[typename] : undefined
  const areValid =
    faults?.length === names.length && faults.every((fault, index) => !fault(names[index] ?? ''))
  // Decoding ignores invalid characters and incomplete code points, but an object must have only one ID.
  const isId = areValid && encodeId(typename, id) === text
  return isId ? undefined : { message: 'is not an id; use an id that the API returned' }
}

/**
 * Wraps a resolver so that it checks its arguments first.
 *
 * @pothos/plugin-validation, which does the same, made 80 function calls for the two names of an `increment`, and
 * allocated a tenth of the memory of a request.
 */
export function checked({ args: declared, extensions }: Field, resolve: Resolver): Resolver {
  const checks = Object.values(declared).flatMap(({ name, defaultValue, extensions }) =>
    extensions?.check ? [{ name, defaultValue, check: extensions.check }] : [],
  )
  const checkAll = extensions?.check
  if (checks.length === 0 && !checkAll) return resolve
  return (parent, args, context, info) => {
    for (const { name, defaultValue, check } of checks) {
      const value: unknown = args[name]
      // Defaults are valid: most calls have the default namespace.
      if (value == null || value === defaultValue) continue
      const fault = faultAt([name], check(value))
      if (fault) throw inputError(fault)
    }
    const fault = checkAll?.(args)
    if (fault) throw inputError(fault)
    return resolve(parent, args, context, info)
  }
}

/** Maximum length of a list argument or of a page. */
export const MAX_ITEMS = 500

/** Types that can be watched. */
const TOPICS = ['Counter', 'SequenceGroup', 'Reservation']

/** Checks what the type of an argument can't express. */
export type Check<Value> = (value: Value) => Fault | undefined

export const names = listOf(nameFault, 1, MAX_ITEMS, 'items')
export const changes = listOf(({ name }: CounterDelta) => nameFault(name), 1, MAX_CHANGES, 'changes', 'name')

/** The other checks depend on the current definition. */
export const definition: Check<DefinitionChange> = ({ slots, maxIn, ...retention }) =>
  faultAt(['slots'], rangeFault(slots, 1, MAX_SLOTS)) ?? limitsFault(maxIn ?? []) ?? retentionFault(retention)

function limitsFault(maxIn: readonly PeriodLimit[]): Fault | undefined {
  for (const [index, { period, max }] of maxIn.entries()) {
    if (max < 0) return { message: 'must not be negative', path: ['maxIn', index, 'max'] }
    if (maxIn.findIndex((limit) => limit.period === period) < index)
      return { message: `repeats ${period}`, path: ['maxIn', index, 'period'] }
  }
  return undefined
}

export const namespaceDefinition: Check<NamespaceChange> = ({ leaderboards, ...retention }) => {
  const periods = leaderboards ?? []
  const repeated = periods.findIndex((period, index) => periods.indexOf(period) < index)
  if (repeated >= 0) return { message: `repeats ${periods[repeated]}`, path: ['leaderboards', repeated] }
  return retentionFault(retention)
}

/** As for a counter, the other checks depend on the current definition. */
export const sequenceDefinition: Check<SequenceDefinitionChange> = ({ format, timeZone }) =>
  retentionFault({ timeZone }) ?? faultAt(['format'], textFault(format ?? ''))

function retentionFault({ timeZone, periods }: RetentionChange): Fault | undefined {
  if (timeZone != null && !timeZoneNamed(timeZone))
    return { message: 'must be the name of an IANA time zone, such as Europe/Berlin', path: ['timeZone'] }
  const seen = new Set<string>()
  for (const [index, { period, keepDays }] of periods?.entries() ?? []) {
    if (seen.has(period)) return { message: `repeats ${period}`, path: ['periods', index, 'period'] }
    seen.add(period)
    const fault = faultAt(['periods', index, 'keepDays'], rangeFault(keepDays, 1, MAX_KEEP_DAYS))
    if (fault) return fault
  }
  return undefined
}

export const ids = listOf(idFault, 0, MAX_ITEMS, 'items')
export const topicIds = listOf(idOf(`a ${TOPICS.join(', ')}`, TOPICS), 1, MAX_ITEMS, 'items')
export const reservationId = idOf('a reservation', ['Reservation'])
export const holdId = idOf('a hold', ['Hold'])
export const apiKeyId = idOf('an API key', ['ApiKey'])

function idOf(kind: string, typenames: readonly string[]): Check<string> {
  return (id) =>
    !idFault(id) && typenames.includes(decodeId(id).typename)
      ? undefined
      : { message: `is not the id of ${kind}` }
}

/** A grant as sent, whose optional parts may be missing. */
type GrantSource = Omit<Grant, 'namespace' | 'names'> & Change<Pick<Grant, 'namespace' | 'names'>>

/** A grant as it is stored. */
export function grantIn({ namespace, names, ...grant }: GrantSource): Grant {
  return { ...grant, scopes: [...new Set(grant.scopes)], namespace: namespace ?? null, names: names ?? null }
}

export const grants = listOf((grant: GrantSource) => grantFault(grantIn(grant)), 1, MAX_GRANTS, 'grants')
/** The IDs of documents, as a key is bound to them. */
export const documentIds = listOf(documentIdFault, 1, MAX_ITEMS, 'documents')
export const documents = listOf(
  ({ documentId }: { documentId: string }) => documentIdFault(documentId),
  1,
  MAX_ITEMS,
  'documents',
  'documentId',
)
export const perMinute = between(1, MAX_PER_MINUTE)
export const future: Check<Date> = (at) =>
  at.getTime() > Date.now() && at.getTime() < LAST_INSTANT
    ? undefined
    : { message: 'must be in the future, before the year 2100' }

export const pageSize = between(0, MAX_ITEMS)

export const page = notBoth('last', 'first')
export const historyRange = notBoth('last', 'from')
export const reset = notBoth('expectedRevision', 'expectedValue')

/** Like `page`. Only the order by name has an index of names, and only values are kept for periods. */
export const counterPage: Check<Record<string, unknown>> = (args) => {
  const named = ['prefix', 'contains'].find((argument) => args[argument] !== '')
  if (named && args.orderBy !== 'NAME_ASC') return { message: 'requires the order NAME_ASC', path: [named] }
  return orderOfPeriod(args) ?? page(args) ?? leaderboard(args)
}

const orderOfPeriod: Check<Record<string, unknown>> = ({ orderBy, period }) =>
  period != null && orderBy !== 'VALUE_DESC' && orderBy !== 'VALUE_ASC'
    ? { message: 'requires the order VALUE_DESC or VALUE_ASC', path: ['period'] }
    : undefined

/** A leaderboard that is watched: no list by name, which is read in pages. */
export const liveLeaderboard: Check<Record<string, unknown>> = (args) =>
  args.orderBy === 'NAME_ASC' ? { message: 'must not be NAME_ASC', path: ['orderBy'] } : orderOfPeriod(args)

/** The arguments that choose a leaderboard. */
export const leaderboard: Check<{ period?: unknown; at?: Date | null | undefined }> = ({ period, at }) => {
  if (at == null) return undefined
  if (period == null) return { message: 'requires "period"', path: ['at'] }
  const time = at.getTime()
  const isNear = time >= FIRST_INSTANT && time <= LAST_INSTANT
  return isNear ? undefined : { message: 'must be in the years 1000 to 2099', path: ['at'] }
}

function notBoth(argument: string, other: string): Check<Record<string, unknown>> {
  return (args) =>
    args[argument] == null || args[other] == null
      ? undefined
      : { message: `cannot be combined with "${other}"`, path: [argument] }
}

export function between(min: number, max: number): Check<number> {
  return (number) => rangeFault(number, min, max)
}

/** Measures whether the revision of a counter or sequence group is selected anywhere in a mutation's result. */
const countRevisions = measureBelow(
  (sum, field, below) => sum + below + (field?.name.value === 'revision' ? 1 : 0),
)

export interface KeyedArguments {
  namespace: string
  idempotencyKey?: string | null | undefined
}

/**
 * Returns the options of a call, from its arguments and selection, and a key in the request's header. Most calls have no
 * key, so it is checked here: a separate check on the argument made every call 4 % more expensive.
 *
 * @throws {NthError} BAD_USER_INPUT
 */
export function callOptions(
  args: KeyedArguments,
  context: Context,
  info: GraphQLResolveInfo,
  wantsPeriodValues?: boolean,
): CallOptions {
  const withRevision = countRevisions(info) > 0
  const key = args.idempotencyKey ?? context.idempotencyKey
  if (key === undefined) return { withRevision, wantsPeriodValues, owner: context.owner, claim: undefined }
  const fault = keyFault(key)
  if (fault) throw inputError({ ...fault, path: ['idempotencyKey'] })
  const request = [info.fieldName, nonDefaultArguments(args, info)]
  const claim = claimOf(args.namespace, key, request, context.caller.identity)
  return { withRevision, wantsPeriodValues, owner: context.owner, claim }
}

/**
 * The arguments that differ from their defaults. So a key stays valid when a later version adds an argument that a
 * repeated call doesn't send.
 */
function nonDefaultArguments(args: object, { fieldName, parentType }: GraphQLResolveInfo): object {
  const declared = parentType.getFields()[fieldName]?.args ?? []
  const values = args as Readonly<Record<string, unknown>>
  const others: Record<string, unknown> = {}
  for (const { name, defaultValue } of declared) {
    const value = values[name]
    if (value != null && value !== defaultValue && name !== 'idempotencyKey') others[name] = value
  }
  return others
}
