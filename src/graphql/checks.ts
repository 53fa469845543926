import { z } from 'zod'
import { PERIODS, timeZoneNamed } from '../core/calendar.ts'
import { type CounterDelta, MAX_CHANGES } from '../core/counters.ts'
import { MAX_KEEP_DAYS, MAX_SLOTS, type PeriodChoice } from '../core/definition.ts'
import { MAX_BUCKETS } from '../core/history.ts'
import { type Fault, nameFault, textFault } from '../core/names.ts'
import { MAX_BLOCK } from '../core/numbers.ts'
import { decodeId, idFault } from './ids.ts'

/** The most items that one list takes or gives. */
export const MAX_ITEMS = 500

/** The most periods that a definition keeps: each of them once. */
export const MAX_PERIODS = PERIODS.length

/** The longest time that a number can be reserved: a day. */
const MAX_TTL_S = 86_400

/** What arguments must be beyond being of their type. */
export const name = z.string().superRefine((text, context) => report(context, nameFault(text)))

export const textOrEmpty = z.string().superRefine((text, context) => report(context, textFault(text)))

/**
 * Says of a list argument or field how many items it takes. That is looked at before the items are; the checks below
 * come after.
 */
export function holds(maxItems: number): { extensions: { maxItems: number } } {
  return { extensions: { maxItems } }
}

export const names = listOf(nameFault, 1)

/** A list of changes that isn't too long. One that is too long isn't looked into. */
export const changes = z.array(z.custom<CounterDelta>()).superRefine((list, context) => {
  const { length } = list
  if (length < 1 || length > MAX_CHANGES) {
    const limit = length < 1 ? 1 : MAX_CHANGES
    report(context, { message: `must hold 1 to ${MAX_CHANGES} changes; it holds ${length}`, limit })
    return
  }
  list.forEach(({ name }, index) => {
    report(context, nameFault(name), [index, 'name'])
  })
})

/** What a definition must be that its parts alone don't say. */
export const definition = z
  .looseObject({})
  .superRefine(({ minValue, maxValue, slots, ...retention }, context) => {
    if (typeof minValue === 'number' && typeof maxValue === 'number' && minValue > maxValue) {
      report(context, { message: `must not be above maxValue, ${maxValue}; it is ${minValue}` }, ['minValue'])
    }
    if (typeof slots === 'number') report(context, rangeFault(slots, 1, MAX_SLOTS), ['slots'])
    reportRetention(context, retention)
  })

export const namespaceDefinition = z.looseObject({}).superRefine((retention, context) => {
  reportRetention(context, retention)
})

/** The rest depends on what the sequence is already. */
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
    if (seen.has(period)) report(context, { message: `is ${period} again` }, ['periods', index, 'period'])
    seen.add(period)
    if (typeof keepDays === 'number') {
      report(context, rangeFault(keepDays, 1, MAX_KEEP_DAYS), ['periods', index, 'keepDays'])
    }
    if (seen.size < index + 1) return
  }
}

export const id = z.string().superRefine((text, context) => report(context, idFault(text)))

export const ids = listOf(idFault, 0)

export const reservationId = z.string().superRefine((text, context) => {
  const isOne = !idFault(text) && decodeId(text).typename === 'Reservation'
  if (!isOne) report(context, { message: 'is not the id of a reservation' })
})

export const count = between(1, MAX_BLOCK)

export const ttlSeconds = between(1, MAX_TTL_S)

export const bucketCount = between(0, MAX_BUCKETS)

export const pageSize = between(0, MAX_ITEMS)

/** Of a page, `first` and `last` say opposite things. */
export const page = z.looseObject({}).superRefine(({ first, last }, context) => {
  if (first != null && last != null) report(context, { message: 'cannot go with "first"' }, ['last'])
})

/** Of a history, `last` and `from` say two lengths. */
export const historyRange = z.looseObject({}).superRefine(({ last, from }, context) => {
  if (last != null && from != null) report(context, { message: 'cannot go with "from"' }, ['last'])
})

/** The same, where only the order by name has an index by which a prefix is found. */
export const counterPage = page.superRefine(({ prefix, orderBy }, context) => {
  if (prefix !== '' && orderBy !== 'NAME_ASC') {
    report(context, { message: 'goes with the order NAME_ASC only' }, ['prefix'])
  }
})

function between(lowest: number, highest: number) {
  return z.number().superRefine((number, context) => report(context, rangeFault(number, lowest, highest)))
}

function rangeFault(number: number, lowest: number, highest: number): Fault | undefined {
  if (number >= lowest && number <= highest) return undefined
  const limit = number < lowest ? lowest : highest
  return { message: `must be from ${lowest} to ${highest}; it is ${number}`, limit }
}

/** A list that isn't too long, of texts without fault. A list that is too long isn't looked into. */
function listOf(faultOf: (text: string) => Fault | undefined, fewest: number) {
  return z.array(z.string()).superRefine((list, context) => {
    const { length } = list
    if (length >= fewest && length <= MAX_ITEMS) {
      list.forEach((text, index) => {
        report(context, faultOf(text), [index])
      })
    } else {
      const limit = length < fewest ? fewest : MAX_ITEMS
      report(context, { message: `must hold ${fewest} to ${MAX_ITEMS} items; it holds ${length}`, limit })
    }
  })
}

function report(context: z.RefinementCtx, fault: Fault | undefined, path: PropertyKey[] = []): void {
  if (fault === undefined) return
  const { message, limit } = fault
  context.addIssue({ code: 'custom', message, path, ...(limit !== undefined && { params: { limit } }) })
}
