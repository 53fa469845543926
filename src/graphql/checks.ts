import { z } from 'zod'
import { type Fault, nameFault, textFault } from '../core/names.ts'
import { MAX_BLOCK } from '../core/sequences.ts'

/** The most items that one list takes or gives. */
export const MAX_ITEMS = 500

/** What arguments must be beyond being of their type. */
export const name = z.string().superRefine((text, context) => report(context, nameFault(text)))

export const textOrEmpty = z.string().superRefine((text, context) => report(context, textFault(text)))

export const names = z.array(z.string()).superRefine((list, context) => {
  const fault = list.length === 0 ? { message: 'must hold at least one name' } : lengthFault(list)
  if (fault) return report(context, fault)
  list.forEach((text, index) => {
    report(context, nameFault(text), [index])
  })
})

export const ids = z.array(z.unknown()).superRefine((list, context) => report(context, lengthFault(list)))

export const count = z.number().superRefine((number, context) => {
  if (number >= 1 && number <= MAX_BLOCK) return
  report(context, { message: `must be from 1 to ${MAX_BLOCK}; it is ${number}`, limit: MAX_BLOCK })
})

export const pageSize = z.number().superRefine((number, context) => {
  if (number >= 0 && number <= MAX_ITEMS) return
  report(context, { message: `must be from 0 to ${MAX_ITEMS}; it is ${number}`, limit: MAX_ITEMS })
})

/** Of a page, `first` and `last` say opposite things. */
export const page = z.looseObject({}).superRefine(({ first, last }, context) => {
  if (first != null && last != null) report(context, { message: 'cannot go with "first"' }, ['last'])
})

function lengthFault({ length }: readonly unknown[]): Fault | undefined {
  if (length <= MAX_ITEMS) return undefined
  return { message: `may hold at most ${MAX_ITEMS}; it holds ${length}`, limit: MAX_ITEMS }
}

function report(context: z.RefinementCtx, fault: Fault | undefined, path: PropertyKey[] = []): void {
  if (fault === undefined) return
  const { message, limit } = fault
  context.addIssue({ code: 'custom', message, path, ...(limit !== undefined && { params: { limit } }) })
}
