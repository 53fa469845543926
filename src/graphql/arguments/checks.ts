import { z } from 'zod'
import { type CounterDelta, MAX_CHANGES } from '../../core/counters/counters.ts'
import { MAX_KEEP_DAYS, MAX_SLOTS, type PeriodChoice } from '../../core/counters/definition.ts'
import { MAX_BUCKETS } from '../../core/counters/historyRange.ts'
import { type Fault, nameFault, textFault } from '../../core/names.ts'
import { MAX_BLOCK } from '../../core/sequences/blocks.ts'
import { PERIODS, timeZoneNamed } from '../../core/time/calendar.ts'
import { decodeId, idFault } from './ids.ts'

/**
 * Maximum length of a list argument or of a page. Lists declare theirs as the extension `maxItems`, which is checked
 * before their items are; the checks below run later.
 */
export const MAX_ITEMS = 500

/** Maximum tracked periods in a definition: each of them once. */
export const MAX_PERIODS = PERIODS.length

/** Longest reservation, in seconds: a day. */
const MAX_TTL_S = 86_400

/** These check the values of arguments, after their types. */
export const name = text(nameFault)

export const textOrEmpty = text(textFault)

export const names = listOf(nameFault, 1)

/** Checks a list of changes. If its length is invalid, its items aren't checked. */
export const changes = z.array(z.custom<CounterDelta>()).superRefine((list, context) => {
  const fault = lengthFault(list, 1, MAX_CHANGES, 'changes')
  if (fault) report(context, fault)
  else reportFirst(context, list, ({ name }) => nameFault(name), ['name'])
})

/** Checks what the types of a definition's fields can't express. */
export const definition = z
  .looseObject({})
  .superRefine(({ minValue, maxValue, slots, ...retention }, context) => {
    if (typeof minValue === 'number' && typeof maxValue === 'number' && minValue > maxValue) {
      report(context, { message: `must not exceed maxValue, ${maxValue}; it is ${minValue}` }, ['minValue'])
    }
    if (typeof slots === 'number') report(context, rangeFault(slots, 1, MAX_SLOTS), ['slots'])
    reportRetention(context, retention)
  })

export const namespaceDefinition = z
  .looseObject({})
  .superRefine((retention, context) => reportRetention(context, retention))

/** The other checks depend on the current definition. */
export const sequenceDefinition = z.looseObject({}).superRefine(({ format, timeZone }, context) => {
  reportRetention(context, { timeZone })
  if (typeof format === 'string') report(context, textFault(format), ['format'])
})

function reportRetention(context: z.RefinementCtx, { timeZone, periods }: Record<string, unknown>): void {
  if (typeof timeZone === 'string' && !timeZoneNamed(timeZone)) {
    report(context, { message: 'must be the name of an IANA time zone, such as Europe/Berlin' }, ['timeZone'])
  }
  if (!Array.isArray(periods)) return
  const chosen: PeriodChoice[] = periods
  const seen = new Set<string>()
  for (const [index, { period, keepDays }] of chosen.entries()) {
    if (seen.has(period)) report(context, { message: `repeats ${period}` }, ['periods', index, 'period'])
    seen.add(period)
    if (typeof keepDays === 'number') {
      report(context, rangeFault(keepDays, 1, MAX_KEEP_DAYS), ['periods', index, 'keepDays'])
    }
    if (seen.size < index + 1) return
  }
}

export const id = text(idFault)

export const ids = listOf(idFault, 0)

export const reservationId = text((id) =>
  !idFault(id) && decodeId(id).typename === 'Reservation'
    ? undefined
    : { message: 'is not the id of a reservation' },
)

export const count = between(1, MAX_BLOCK)

export const ttlSeconds = between(1, MAX_TTL_S)

export const bucketCount = between(0, MAX_BUCKETS)

export const pageSize = between(0, MAX_ITEMS)

export const page = notLastWith('first')

export const historyRange = notLastWith('from')

/** Like `page`. Only the order by name has an index to find a prefix. */
export const counterPage = page.superRefine(({ prefix, orderBy }, context) => {
  if (prefix !== '' && orderBy !== 'NAME_ASC') {
    report(context, { message: 'requires the order NAME_ASC' }, ['prefix'])
  }
})

/** Checks that `last` and another argument are not both given. */
function notLastWith(other: string) {
  return z.looseObject({}).superRefine(({ last, [other]: value }, context) => {
    if (last != null && value != null)
      report(context, { message: `cannot be combined with "${other}"` }, ['last'])
  })
}

function text(faultOf: (text: string) => Fault | undefined) {
  return z.string().superRefine((value, context) => report(context, faultOf(value)))
}

function between(min: number, max: number) {
  return z.number().superRefine((number, context) => report(context, rangeFault(number, min, max)))
}

function rangeFault(number: number, min: number, max: number): Fault | undefined {
  if (number >= min && number <= max) return undefined
  return { message: `must be from ${min} to ${max}; it is ${number}`, limit: number < min ? min : max }
}

/** Checks a list of texts. If its length is invalid, its items aren't checked. */
function listOf(faultOf: (text: string) => Fault | undefined, min: number) {
  return z.array(z.string()).superRefine((list, context) => {
    const fault = lengthFault(list, min, MAX_ITEMS, 'items')
    if (fault) report(context, fault)
    else reportFirst(context, list, faultOf)
  })
}

function lengthFault({ length }: unknown[], min: number, max: number, unit: string): Fault | undefined {
  if (length >= min && length <= max) return undefined
  return { message: `must have ${min} to ${max} ${unit}; it has ${length}`, limit: length < min ? min : max }
}

/** Reports the first wrong item of a list: an error names one, and 10 000 issues took 80 ms of a tick. */
function reportFirst<Item>(
  context: z.RefinementCtx,
  list: readonly Item[],
  faultOf: (item: Item) => Fault | undefined,
  path: PropertyKey[] = [],
): void {
  const wrong = list.findIndex((item) => faultOf(item))
  const item = list[wrong]
  if (item !== undefined) report(context, faultOf(item), [wrong, ...path])
}

function report(context: z.RefinementCtx, fault: Fault | undefined, path: PropertyKey[] = []): void {
  if (fault === undefined) return
  const { message, limit } = fault
  context.addIssue({ code: 'custom', message, path, ...(limit !== undefined && { params: { limit } }) })
}
