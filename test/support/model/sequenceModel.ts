import { Temporal } from 'temporal-polyfill'
import type { SequenceDefinition, SequenceDefinitionChange } from '../../../src/rules/sequenceDefinition.ts'

/** What one sequence does, said once more and in the simplest way, to compare with. */
export interface SequenceModel {
  definition: SequenceDefinition
  /** The texts that each group has issued, and whether it was restarted. */
  groups: Record<string, ModelGroup>
  keys: Record<string, { request: string; answer: ModelNumbers }>
}

export interface ModelGroup {
  rows: Record<string, ModelPosition>
  /** Null: it has issued no number, and was not raised. */
  latest: ModelLatest | null
  /** The definition of the numbers that it issued last; null: it has issued none. */
  issuedBy: SequenceDefinition | null
  texts: Record<string, true>
  isRestarted: boolean
}

interface ModelPosition {
  last: number | null
  next: number | null
}

interface ModelLatest {
  /** Null: it was raised to a number that comes next. */
  value: number | null
  at: number
}

export interface ModelNumbers {
  value: number
  lastValue: number
  texts: string[]
}

export type SequenceOperation =
  | { kind: 'next'; group: string; count: number; key?: string | undefined }
  | { kind: 'restart'; group: string; nextValue: number | null }
  /** `period`: by its key in the model. */
  | { kind: 'raise'; group: string; period: string; position: ModelPosition; isIssued: boolean }
  | { kind: 'define'; change: SequenceDefinitionChange }
  | { kind: 'delete' }

/** What a caller receives. */
export type SequenceOutcome =
  | { numbers: ModelNumbers; isReplayed: boolean }
  | { done: true }
  | { raise: 'created' | 'raised' | 'kept' }
  | { code: string; mayRepeat?: boolean }

export const defaults: SequenceDefinition = {
  startValue: 1,
  step: 1,
  minValue: null,
  maxValue: null,
  cycle: false,
  format: null,
  restartEvery: null,
  allowRepeats: false,
  timeZone: 'UTC',
  gapless: false,
}

export const emptySequence: SequenceModel = { definition: defaults, groups: {}, keys: {} }

const END = BigInt(Number.MAX_SAFE_INTEGER)
const MOST_OF_CYCLE = 2_000n

/** The state after an operation, and what its caller receives. It doesn't decide whether a definition could repeat texts. */
export function stepSequence(
  model: SequenceModel,
  operation: SequenceOperation,
  at: number,
): [SequenceModel, SequenceOutcome] {
  switch (operation.kind) {
    case 'next':
      return next(model, operation, at)
    case 'restart':
      return restart(model, operation, at)
    case 'raise':
      return raise(model, operation, at)
    case 'delete':
      return [{ ...emptySequence, keys: model.keys }, { done: true }]
    case 'define': {
      const definition = changed(model, operation.change)
      return isSound(definition) && !startsInVain(model, definition)
        ? [{ ...model, definition }, { done: true }]
        : [model, { code: 'BAD_USER_INPUT' }]
    }
  }
}

/** What would come next in a group. */
export function forecast({ definition, groups }: SequenceModel, group: string, at: number): number | null {
  const row = rowOf(groups[group], definition, at)
  const number = following(definition, row)
  return number === null ? null : Number(number)
}

/** The last number of a group, as it was issued, or as the present definition would write it. */
export function latestOf({ definition, groups }: SequenceModel, group: string) {
  const { latest = null, issuedBy = null } = groups[group] ?? {}
  if (latest === null || latest.value === null) return [null, null]
  return [latest.value, textOf(issuedBy ?? definition, group, latest.value, latest.at)]
}

/** Whether a sequence has issued numbers. */
export function isUsed({ groups }: SequenceModel): boolean {
  return Object.values(groups).some(({ issuedBy }) => issuedBy !== null)
}

export function textOf(definition: SequenceDefinition, group: string, value: number, at: number): string {
  const format = definition.format ?? (group === '' ? '{value}' : '{group}-{value}')
  const date = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(definition.timeZone)
  const two = (part: number) => String(part).padStart(2, '0')
  const fields: Record<string, string> = {
    group,
    yyyy: String(date.year),
    yy: two(date.year % 100),
    MM: two(date.month),
    dd: two(date.day),
    HH: two(date.hour),
    week: `${date.yearOfWeek}-W${two(date.weekOfYear ?? 0)}`,
  }
  return format.replace(/\{\{|\}\}|\{(\w+)(?::(\d+))?\}/g, (all, field?: string, digits?: string) => {
    if (field === undefined) return all.slice(1)
    if (field !== 'value') return fields[field] ?? ''
    const padded = String(Math.abs(value)).padStart(Number(digits ?? 0), '0')
    return value < 0 ? `-${padded}` : padded
  })
}

function changed(
  { definition: present, groups }: SequenceModel,
  change: SequenceDefinitionChange,
): SequenceDefinition {
  const entries = Object.entries({ ...present, ...change }).map(([part, value]) => {
    const kept = present[part as keyof SequenceDefinition]
    return [part, value === undefined ? kept : (value ?? defaults[part as keyof SequenceDefinition])]
  })
  // The parts of one.
  const definition = Object.fromEntries(entries) as SequenceDefinition
  const used = Object.entries(groups).filter(([, { issuedBy }]) => issuedBy !== null)
  const isOnlyUnnamed = used.length > 0 && used.every(([name]) => name === '')
  const isFormatDropped = definition.format === null && present.format !== null
  if (isOnlyUnnamed && isFormatDropped && !definition.allowRepeats) definition.format = '{value}'
  return definition
}

/** Whether a number may be below 0, if nothing is restarted there. */
function mayBeNegative({ startValue, step, minValue, cycle }: SequenceDefinition): boolean {
  if (startValue < 0) return true
  return step < 0 ? minValue === null || minValue < 0 : cycle && minValue !== null && minValue < 0
}

/** Whether the texts of a group show where its name ends. */
function showsEnd(definition: SequenceDefinition): boolean {
  const [, after, before] =
    /\{group\}(.*)\{value(?::\d+)?\}|\{value(?::\d+)?\}(.*)\{group\}/.exec(definition.format ?? '') ?? []
  const between = (after ?? before)?.replace(/\{week\}/g, '0-W0').replace(/\{\w+\}/g, '0')
  if (between === undefined) return true
  return after !== undefined && mayBeNegative(definition) ? /[^-0-9]/.test(between) : /[^0-9]/.test(between)
}

/** Whether a group's numbers would look like those of others. */
function looksLikeOthers(definition: SequenceDefinition, group: string): boolean {
  const { format, allowRepeats } = definition
  if (group === '' || allowRepeats) return false
  return format === null ? mayBeNegative(definition) : !format.includes('{group}')
}

/** Whether the start is another one, though the first number was issued and none will begin there. */
function startsInVain(
  { definition: present, groups }: SequenceModel,
  definition: SequenceDefinition,
): boolean {
  const used = Object.entries(groups).flatMap(([name, { issuedBy }]) => (issuedBy === null ? [] : [name]))
  const { startValue, minValue, maxValue, restartEvery, cycle } = definition
  const isAhead = restartEvery !== null || cycle || used.some((name) => name !== '')
  const mayStay =
    present.startValue >= (minValue ?? -Infinity) && present.startValue <= (maxValue ?? Infinity)
  return used.length > 0 && !isAhead && mayStay && startValue !== present.startValue
}

/** Whether a sequence can be so, whatever it has issued. Of formats, the test has only good ones. */
function isSound(definition: SequenceDefinition): boolean {
  const { startValue, step, minValue, maxValue, cycle, format, restartEvery, allowRepeats } = definition
  if (step === 0) return false
  if (minValue !== null && (startValue < minValue || (maxValue !== null && minValue > maxValue))) return false
  if (maxValue !== null && startValue > maxValue) return false
  if (cycle && (step > 0 ? maxValue : minValue) === null) return false
  if (!allowRepeats && !showsEnd(definition)) return false
  if (restartEvery === null || allowRepeats) return true
  const shows = (field: string) => (format ?? '').includes(`{${field}}`)
  const year = shows('yyyy') || shows('yy')
  const month = year && shows('MM')
  const day = month && shows('dd')
  return { YEAR: year, MONTH: month, WEEK: day || shows('week'), DAY: day, HOUR: day && shows('HH') }[
    restartEvery
  ]
}

/** Key of the period of an instant. */
export function periodKeyOf({ restartEvery, timeZone }: SequenceDefinition, at: number): string {
  const date = Temporal.Instant.fromEpochMilliseconds(at).toZonedDateTimeISO(timeZone)
  const text = date.toPlainDateTime().toString()
  switch (restartEvery) {
    case null:
      return ''
    case 'YEAR':
      return text.slice(0, 4)
    case 'MONTH':
      return text.slice(0, 7)
    case 'WEEK':
      return `${date.yearOfWeek} week ${date.weekOfYear}`
    case 'DAY':
      return text.slice(0, 10)
    case 'HOUR':
      return text.slice(0, 13)
  }
}

const UNUSED: ModelGroup = { rows: {}, latest: null, issuedBy: null, texts: {}, isRestarted: false }

function rowOf(group: ModelGroup | undefined, definition: SequenceDefinition, at: number) {
  return group?.rows[periodKeyOf(definition, at)] ?? { last: null, next: null }
}

/** The number after what a row holds; null: there is none. */
function following(
  { startValue, step, minValue, maxValue, cycle }: SequenceDefinition,
  { last, next }: { last: number | null; next: number | null },
): bigint | null {
  const [lowest, highest] = [
    minValue === null ? -END : BigInt(minValue),
    maxValue === null ? END : BigInt(maxValue),
  ]
  let number =
    next === null ? (last === null ? BigInt(startValue) : BigInt(last) + BigInt(step)) : BigInt(next)
  if (step > 0 && number < lowest) number = lowest
  if (step < 0 && number > highest) number = highest
  if (number >= lowest && number <= highest) return number
  if (!cycle) return null
  return BigInt((step > 0 ? minValue : maxValue) ?? startValue)
}

function next(
  model: SequenceModel,
  { group, count, key }: Extract<SequenceOperation, { kind: 'next' }>,
  at: number,
): [SequenceModel, SequenceOutcome] {
  const request = JSON.stringify([group, count])
  const earlier = key === undefined ? undefined : model.keys[key]
  if (earlier && earlier.request !== request) return [model, { code: 'IDEMPOTENCY_KEY_REUSED' }]
  if (earlier) return [model, { numbers: earlier.answer, isReplayed: true }]
  const { definition } = model
  if (looksLikeOthers(definition, group)) return [model, { code: 'BAD_USER_INPUT' }]
  if (definition.cycle && BigInt(count) > longest(definition)) return [model, { code: 'BAD_USER_INPUT' }]
  const held = model.groups[group] ?? UNUSED
  const values: number[] = []
  let row = rowOf(held, definition, at)
  while (values.length < count) {
    const number = following(definition, row)
    if (number === null) {
      const bound = definition.step > 0 ? definition.maxValue : definition.minValue
      return [model, { code: bound === null ? 'OUT_OF_RANGE' : 'SEQUENCE_EXHAUSTED' }]
    }
    values.push(Number(number))
    row = { last: Number(number), next: null }
  }
  const texts = values.map((value) => textOf(definition, group, value, at))
  const [value, lastValue] = [values[0] ?? 0, values.at(-1) ?? 0]
  const answer = { value, lastValue, texts }
  const after: ModelGroup = {
    rows: { ...held.rows, [periodKeyOf(definition, at)]: row },
    latest: { value: lastValue, at },
    issuedBy: definition,
    texts: { ...held.texts, ...Object.fromEntries(texts.map((text) => [text, true])) },
    isRestarted: held.isRestarted,
  }
  const keys = key === undefined ? model.keys : { ...model.keys, [key]: { request, answer } }
  return [
    { ...model, groups: { ...model.groups, [group]: after }, keys },
    { numbers: answer, isReplayed: false },
  ]
}

/** How many numbers one round of a cycle has, as far as one call may take them. */
function longest({ startValue, step, minValue, maxValue }: SequenceDefinition): bigint {
  const from = BigInt((step > 0 ? minValue : maxValue) ?? startValue)
  const end = BigInt((step > 0 ? maxValue : minValue) ?? 0)
  const length = (end - from) / BigInt(step) + 1n
  return length < MOST_OF_CYCLE ? length : MOST_OF_CYCLE
}

function restart(
  model: SequenceModel,
  { group, nextValue }: Extract<SequenceOperation, { kind: 'restart' }>,
  at: number,
): [SequenceModel, SequenceOutcome] {
  const { definition, groups } = model
  const { minValue, maxValue, startValue } = definition
  const value = nextValue ?? startValue
  if ((minValue !== null && value < minValue) || (maxValue !== null && value > maxValue)) {
    return [model, { code: 'LIMIT_REACHED' }]
  }
  const held = groups[group] ?? UNUSED
  const row = { ...rowOf(held, definition, at), next: value }
  const after = { ...held, rows: { ...held.rows, [periodKeyOf(definition, at)]: row }, isRestarted: true }
  return [{ ...model, groups: { ...groups, [group]: after } }, { done: true }]
}

/** The forms of period keys. */
const FORMS: Record<NonNullable<SequenceDefinition['restartEvery']>, RegExp> = {
  YEAR: /^\d{4}$/,
  MONTH: /^\d{4}-\d\d$/,
  WEEK: /week/,
  DAY: /^\d{4}-\d\d-\d\d$/,
  HOUR: /T/,
}

function raise(
  model: SequenceModel,
  { group, period, position, isIssued }: Extract<SequenceOperation, { kind: 'raise' }>,
  at: number,
): [SequenceModel, SequenceOutcome] {
  const { definition, groups } = model
  const { minValue, maxValue, restartEvery, step } = definition
  if (!(restartEvery === null ? /^$/ : FORMS[restartEvery]).test(period))
    return [model, { code: 'BAD_USER_INPUT' }]
  const value = position.next ?? position.last
  if (value !== null && ((minValue !== null && value < minValue) || (maxValue !== null && value > maxValue)))
    return [model, { code: 'LIMIT_REACHED' }]
  if (looksLikeOthers(definition, group)) return [model, { code: 'BAD_USER_INPUT' }]
  const held = groups[group] ?? UNUSED
  const { [period]: present = { last: null, next: null } } = held.rows
  const upcoming = ({ last, next }: ModelPosition) =>
    next !== null ? BigInt(next) : last !== null ? BigInt(last) + BigInt(step) : undefined
  const [given, own] = [upcoming(position), upcoming(present)]
  if (given === undefined) return [model, { raise: 'kept' }]
  if (own !== undefined && (step > 0 ? given <= own : given >= own)) return [model, { raise: 'kept' }]
  const after: ModelGroup = {
    ...held,
    rows: { ...held.rows, [period]: position },
    latest: { value: position.last, at },
    issuedBy: isIssued ? definition : held.issuedBy,
    // As after a restart, numbers below 0 may look like those of other groups.
    isRestarted: held.isRestarted || (value ?? 0) < 0,
  }
  const isNew = held.latest === null && own === undefined
  return [{ ...model, groups: { ...groups, [group]: after } }, { raise: isNew ? 'created' : 'raised' }]
}
