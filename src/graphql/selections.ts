import {
  type DocumentNode,
  type ExecutionArgs,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLResolveInfo,
  Kind,
  responsePathAsArray,
  type SelectionNode,
  type SelectionSetNode,
  visit,
} from 'graphql'
import type { HistoryCost } from '../repository/history.ts'
import { PERIODS, type Period } from '../rules/calendar.ts'
import { NthError } from '../rules/errors.ts'
import type { Context } from './context.ts'

type Fragments = Readonly<Record<string, FragmentDefinitionNode>>

/** The fragments of a document, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Fragments {
  const fragments = definitions.filter((node) => node.kind === Kind.FRAGMENT_DEFINITION)
  return Object.fromEntries(fragments.map((fragment) => [fragment.name.value, fragment]))
}

/** What is selected below a field, or within a fragment. */
function selectionSetOf(selection: SelectionNode, fragments: Fragments): SelectionSetNode | undefined {
  return selection.kind === Kind.FRAGMENT_SPREAD
    ? fragments[selection.name.value]?.selectionSet
    : selection.selectionSet
}

/** The fields of a selection, with those in fragments. */
export function fieldsIn(selectionSet: SelectionSetNode | undefined, fragments: Fragments): FieldNode[] {
  return (selectionSet?.selections ?? []).flatMap((selection) =>
    selection.kind === Kind.FIELD ? [selection] : fieldsIn(selectionSetOf(selection, fragments), fragments),
  )
}

/** Name of a field in the response. */
export function responseName({ alias, name }: FieldNode): string {
  return (alias ?? name).value
}

/** Characters of a text that cost as much as one value. */
const CHARACTERS_OF_A_VALUE = 20

/** Cost of a text beyond one value. */
export function costOfText(length: number): number {
  return Math.floor(length / CHARACTERS_OF_A_VALUE)
}

/** Number of fields in a selection, with fragments counted at each use. Long response names count more. */
export const fieldCount = createMeasure(
  (sum, field, below) => sum + below + (field ? 1 + costOfText(responseName(field).length) : 0),
)

/** Levels of fields and fragments in a selection. */
export const selectionDepth = createMeasure((depth, _, below) => Math.max(depth, 1 + below))

/** Returns a function that counts how often fields are selected directly below a resolver's, under any alias. */
export function countSelected(...names: string[]) {
  return measureBelow((sum, field, below) =>
    field ? sum + Number(names.includes(field.name.value)) : sum + below,
  )
}

/** Creates a measure, as `createMeasure` does, of all that is selected below a resolver's field. */
export function measureBelow(add: Parameters<typeof createMeasure>[0]) {
  const measure = createMeasure(add)
  return ({ fieldNodes, fragments }: Pick<GraphQLResolveInfo, 'fieldNodes' | 'fragments'>): number => {
    let sum = 0
    for (const { selectionSet } of fieldNodes) sum += measure(selectionSet, fragments)
    return sum
  }
}

/**
 * Creates a measure that folds a selection: `add` gets the result so far, the field (undefined: a fragment), and the
 * measure of what is selected below it. Conditional selections count.
 *
 * Each selection is visited once, so the work is proportional to the document, however often its fragments are used.
 * Results are cached, because each item of a list needs them; a selection belongs to one document, so its fragments
 * never change.
 */
function createMeasure(add: (result: number, field: FieldNode | undefined, below: number) => number) {
  const results = new WeakMap<SelectionSetNode, number>()
  return function measure(selectionSet: SelectionSetNode | undefined, fragments: Fragments): number {
    if (selectionSet === undefined) return 0
    const cached = results.get(selectionSet)
    if (cached !== undefined) return cached
    // Another rule rejects recursive fragments; here they must only terminate.
    results.set(selectionSet, 0)
    let result = 0
    for (const selection of selectionSet.selections) {
      const field = selection.kind === Kind.FIELD ? selection : undefined
      result = add(result, field, measure(selectionSetOf(selection, fragments), fragments))
    }
    results.set(selectionSet, result)
    return result
  }
}

/** Refuses a field that depends on more than what a subscription watches. */
export function refuseInSubscription({ fieldName, operation }: GraphQLResolveInfo): void {
  if (operation.operation !== 'subscription') return
  throw new NthError('BAD_USER_INPUT', `\`${fieldName}\` is not available in a subscription. Query it.`)
}

/** The periods whose totals an operation may select: all that it mentions, as an event too many does no harm. */
export function selectedPeriods({ document, variableValues }: ExecutionArgs): readonly Period[] {
  const mentioned = new Set(Object.values(variableValues ?? {}))
  const fields = new Set<string>()
  visit(document, {
    EnumValue: ({ value }) => void mentioned.add(value),
    Field: ({ name }) => void fields.add(name.value),
  })
  if (fields.has('limits')) return PERIODS
  return PERIODS.filter((period) => mentioned.has(period))
}

/*
 * The one budget of a request: the values that it may get in lists. @pothos/plugin-complexity can't do it: it estimates
 * an operation from its arguments before it runs and then rejects all of its fields, while the lengths of cursors and
 * the rows behind a history are only known while executing, and only the field that exceeds the budget fails.
 *
 * It is also the one gate: a request that has spent more than a few values waits for a tick of the event loop with room
 * for each further list, together with all others of its kind. It waits before it reads a list, and again before it
 * returns it, as the executor completes all items of a list in one tick.
 */

/** Maximum values of a request: items times the fields selected in each. */
export const VALUE_BUDGET = 30_000

/** A request that has spent no more than this never waits. */
export const SMALL = 500

/**
 * What some fields cost beyond one value, for each item of a list: they may need a read, take some microseconds, or are
 * lists themselves. `npm run bench -- --charges` measures them.
 */
const ADDITIONAL_VALUES = new Map([
  ['valueIn', 20],
  ['limits', 20],
  ['held', 5],
  ['heldDown', 5],
  ['place', 20],
  ['changeOf', 20],
  ['numbersOf', 20],
  ['history', 5],
  ['periods', 5],
  ['createdAt', 5],
  ['updatedAt', 5],
  ['timeZone', 5],
  ['sequence', 5],
  ['group', 10],
  ['id', 2],
])

const listedValues = measureBelow((sum, field, below) => {
  if (!field) return sum + below
  const { name, alias } = field
  // Clients with a cache add it everywhere.
  if (name.value === '__typename' && !alias) return sum
  const values = 1 + costOfText(responseName(field).length) + (ADDITIONAL_VALUES.get(name.value) ?? 0)
  // A history charges its buckets when it is read.
  return sum + values + (name.value === 'history' ? 0 : below)
})

/** Number of values selected in each object that a field returns; 1 for a scalar. */
function valuesBelow(info: GraphQLResolveInfo): number {
  return Math.max(1, listedValues(info))
}

/**
 * Charges values to the budget of a request.
 *
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function charge(request: Context, values: number): void {
  if (spend(request, values) <= VALUE_BUDGET) return
  const message = `This request needs more than ${VALUE_BUDGET} values in lists; request fewer at a time.`
  throw new NthError('BAD_USER_INPUT', message, { limit: VALUE_BUDGET })
}

/** What a field costs that may need a read, beyond what a list has charged before: nothing, if it belongs to an item of one. */
function costApart({ path, fieldName }: GraphQLResolveInfo): number {
  const isInList = responsePathAsArray(path).some((key) => typeof key === 'number')
  return isInList ? 0 : (ADDITIONAL_VALUES.get(fieldName) ?? 0)
}

/** Charges a field that is about to be read, unless its list was. Returns a promise if it has to wait for room. */
export function chargeApart(request: Context, info: GraphQLResolveInfo): Promise<void> | undefined {
  const values = costApart(info)
  if (values === 0) return undefined
  charge(request, values)
  return room(request, values)
}

/** Adds values to what a request has spent, without a limit. Returns the sum. */
export function spend(request: Context, values: number): number {
  const spent = (request.spentValues ?? 0) + values
  request.spentValues = spent
  if (request.cost) request.cost.values = spent
  return spent
}

/** Waits for a tick with room for some values; undefined: they and the request are small, and need no room. */
export function room({ spentValues = 0, gate, owner }: Context, values: number): Promise<void> | undefined {
  return Math.max(spentValues, values) > SMALL ? gate.untilRoom(values, owner) : undefined
}

/** A text with fewer characters is parsed at once. */
export const LONG_TEXT = SMALL * CHARACTERS_OF_A_VALUE

/** Checking the arguments of a root field, and the error if they are wrong, in values. */
const VALUES_OF_A_ROOT_FIELD = 10

/**
 * Waits for a tick with room for the arguments of an operation's root fields: all of them may have the same long variables,
 * which are checked and decoded for each field before it is executed. The arguments of one field are quick, and need no room.
 *
 * @param variablesLength of all variables, in characters of JSON
 */
export function roomForArguments(
  { gate, owner }: Pick<Context, 'gate' | 'owner'>,
  rootFields: number,
  variablesLength: number,
): Promise<void> | undefined {
  const values = rootFields * (VALUES_OF_A_ROOT_FIELD + costOfText(variablesLength))
  return values > SMALL ? gate.untilRoom(values, owner) : undefined
}

/**
 * Charges a list that is about to be read. A short document can request the same long list many times, with many fields
 * in each item.
 *
 * @param lengths of the texts in the items, whose cost beyond one value each is charged
 * @returns its values
 * @throws {NthError} BAD_USER_INPUT with `limit` if the budget is exceeded
 */
export function chargeList(
  request: Context,
  items: number,
  info: GraphQLResolveInfo,
  lengths: readonly number[] = [],
): number {
  let count = items
  for (const length of lengths) count += costOfText(length)
  const values = count * valuesBelow(info)
  charge(request, values)
  return values
}

/** Charges a list, as `chargeList` does, and reads it. Waits for room before that, and before it is returned. */
export async function chargedList<Items>(
  request: Context,
  info: GraphQLResolveInfo,
  lengths: readonly number[],
  read: () => Items | Promise<Items>,
): Promise<Items> {
  const values = chargeList(request, lengths.length, info, lengths)
  await room(request, values)
  const items = await read()
  await room(request, values)
  return items
}

/** Values of a bucket with up to three fields. */
export const VALUES_OF_A_BUCKET = 2
const FIELDS_OF_A_BUCKET = 3
/** Work of a read besides its buckets, in values. */
const VALUES_OF_A_READ = 20
/** Stored totals that cost as much to read and to sum as a value costs to return. */
const ROWS_OF_A_VALUE = 2

/**
 * Returns a function that charges a history, or the total of a period, that is about to be read, and returns one that waits
 * for room. It throws BAD_USER_INPUT with `limit` if the budget is exceeded.
 */
export function historyCharge(request: Context, info: GraphQLResolveInfo) {
  return ({ buckets, rows }: HistoryCost) => {
    const bucketValues = buckets * VALUES_OF_A_BUCKET * Math.ceil(valuesBelow(info) / FIELDS_OF_A_BUCKET)
    const values = costApart(info) + Math.max(bucketValues, Math.ceil(rows / ROWS_OF_A_VALUE))
    charge(request, values)
    return () => room(request, values + VALUES_OF_A_READ)
  }
}

/** Charges what the call of a subject returned, which is about to be read. Subscriptions don't watch that. */
export async function chargeSubject(request: Context, info: GraphQLResolveInfo): Promise<void> {
  refuseInSubscription(info)
  await historyCharge(request, info)({ buckets: 1, rows: 0 })()
}
