import { LRUCache } from 'lru-cache'
import { type LocalDate, localDate, type Period } from './calendar.ts'
import type { Fault } from './names.ts'

type Format = readonly Part[]

type Part =
  | { kind: 'text'; text: string }
  | { kind: 'group' }
  /** Padded with zeros to this many digits. */
  | { kind: 'value'; digits: number }
  | { kind: DateField }

type DateField = keyof typeof dateFields

export const MAX_FORMAT_LENGTH = 191
/** Digits of the longest number. */
export const MAX_DIGITS = 16
const GROUP = '{group}'

/** Date fields, and how they are formatted. The length of each is fixed. */
const dateFields = {
  yyyy: ({ year }: LocalDate) => padded(year, 4),
  yy: ({ year }: LocalDate) => padded(year % 100, 2),
  MM: ({ month }: LocalDate) => padded(month, 2),
  dd: ({ day }: LocalDate) => padded(day, 2),
  HH: ({ hour }: LocalDate) => padded(hour, 2),
  week: ({ weekYear, week }: LocalDate) => `${padded(weekYear, 4)}-W${padded(week, 2)}`,
}

const FIELDS = ['group', 'value', 'value:5', ...Object.keys(dateFields)].map((field) => `{${field}}`)

/** Default formats: the number itself; in a named sequence group `group-number`. */
const NUMBER = { kind: 'value' as const, digits: 1 }
const UNNAMED: Format = [NUMBER]
const NAMED: Format = [{ kind: 'group' }, { kind: 'text', text: '-' }, NUMBER]

const parsed = new LRUCache<string, Format>({
  max: 1000,
  memoMethod(format) {
    const parts = parseFormat(format)
    if ('message' in parts) throw new Error(`The format ${JSON.stringify(format)} ${parts.message}`)
    return parts
  },
})

/** The parsed format of a sequence group's numbers. `format` must be valid; null: the default. */
export function formatOf(format: string | null, isNamed: boolean): Format {
  if (format === null) return isNamed ? NAMED : UNNAMED
  return parsed.memo(format)
}

/** Returns a function that formats numbers of a sequence group issued at an instant. */
export function writerOf(
  { format, timeZone }: { format: string | null; timeZone: string },
  group: string,
  at: Date,
): (value: number) => string {
  const parts = formatOf(format, group !== '')
  const number = parts.find((part) => part.kind === 'value') ?? NUMBER
  let date: LocalDate | undefined
  const texts = parts.map((part) => {
    if (part.kind === 'value') return ''
    if (part.kind === 'text') return part.text
    if (part.kind === 'group') return group
    // Few formats have a date, and it costs more than everything else.
    date ??= localDate(timeZone, at)
    return dateFields[part.kind](date)
  })
  const index = parts.indexOf(number)
  const [before, after] = [texts.slice(0, index).join(''), texts.slice(index).join('')]
  return (value) => before + padded(value, number.digits) + after
}

/** A doubled brace, a field and its name, or one character. */
const TOKEN = /\{\{|\}\}|\{([^}]*)\}|./gsu

/** Parses a format. It must contain the number exactly once, with no date next to it: its digits would be ambiguous. */
export function parseFormat(format: string): Format | Fault {
  if ([...format].length > MAX_FORMAT_LENGTH) {
    return { message: `may have at most ${MAX_FORMAT_LENGTH} characters`, position: MAX_FORMAT_LENGTH + 1 }
  }
  const parts: Part[] = []
  let end = 1
  for (const [token, field] of format.matchAll(TOKEN)) {
    const position = end
    end += [...token].length
    if (token === '}') return { message: 'has an unmatched }; for the character itself write }}', position }
    if (token === '{')
      return { message: 'has a { that is not closed; for the character itself write {{', position }
    const text = token === '{{' || token === '}}' ? token.slice(1) : token
    const part = field === undefined ? { kind: 'text' as const, text } : fieldNamed(field)
    if (!part) return { message: `has an unknown field ${token}; supported: ${FIELDS.join(', ')}`, position }
    const last = parts.at(-1)
    if (part.kind === 'text' && last?.kind === 'text') {
      last.text += part.text
      continue
    }
    const isRepeated = parts.some(({ kind }) => kind === part.kind)
    if (isRepeated && part.kind === 'value')
      return { message: 'contains {value} twice; it must occur once', position }
    if (isRepeated && part.kind === 'group') return { message: 'contains {group} twice', position }
    if (last && hasDigits(last) && hasDigits(part) && [last.kind, part.kind].includes('value')) {
      const message = 'has a date next to the number: put a separator between them, such as -'
      return { message, position }
    }
    parts.push(part)
  }
  const hasValue = parts.some(({ kind }) => kind === 'value')
  return hasValue ? parts : { message: 'must contain {value} exactly once' }
}

/** The fields that a format lacks to identify each period. A week is also identified by any of its dates. */
export function hiddenOf(format: Format, period: Period): string[] {
  const shown = new Set<string>(format.map(({ kind }) => kind))
  if (shown.has('yy')) shown.add('yyyy')
  const hidden = needed[period].filter((field) => !shown.has(field)).map((field) => `{${field}}`)
  if (period !== 'WEEK') return hidden
  return shown.has('week') || hidden.length === 0 ? [] : ['{week}']
}

const needed: Record<Period, readonly DateField[]> = {
  YEAR: ['yyyy'],
  MONTH: ['yyyy', 'MM'],
  WEEK: ['yyyy', 'MM', 'dd'],
  DAY: ['yyyy', 'MM', 'dd'],
  HOUR: ['yyyy', 'MM', 'dd', 'HH'],
}

/** Whether a format shows the name of the sequence group. It may be invalid. */
export function showsGroup(format: string): boolean {
  return format.replaceAll('{{', '').includes(GROUP)
}

/**
 * Whether two sequence groups could issue the same text in a format with `{group}`. They can't if a character other than
 * a digit stands between the group and the number: all other parts have a fixed length, so the last such character of a
 * text, or the first one if the number comes first, shows where the name of the group ends or begins. With numbers below
 * 0 that come after the group, it must not be a `-` either: `{group}-{value}` makes `11--1` of 11 and −1, and of 11- and 1.
 *
 * @param isSigned numbers may be negative
 */
export function mixesGroups(format: Format, isSigned: boolean): boolean {
  const groupAt = format.findIndex(({ kind }) => kind === 'group')
  const valueAt = format.findIndex(({ kind }) => kind === 'value')
  const between = format.slice(Math.min(groupAt, valueAt) + 1, Math.max(groupAt, valueAt))
  const ambiguous = isSigned && groupAt < valueAt ? /^[-0-9]*$/ : /^[0-9]*$/
  return ambiguous.test(between.map((part) => sampleOf(part)).join(''))
}

/**
 * What all texts of a format look like: `#` for each run of digits, and `{group}` for the name of the group. With
 * negative numbers there are two skeletons. Texts without a group can be the same only if their skeletons are.
 */
export function skeletonsOf(format: Format, isSigned: boolean): string[] {
  const numbers = isSigned ? ['0', '-0'] : ['0']
  const samples = numbers.map((number) => format.map((part) => sampleOf(part, number)).join(''))
  return samples.map((sample) => sample.replace(/[0-9]+/g, '#'))
}

/** What a part looks like in a text. All dates have the same characters besides their digits. */
function sampleOf(part: Part, number = '0'): string {
  if (part.kind === 'text') return part.text
  if (part.kind === 'value') return number
  if (part.kind === 'group') return GROUP
  return dateFields[part.kind](ANY_DATE)
}

const ANY_DATE = { year: 0, month: 0, day: 0, hour: 0, weekYear: 0, week: 0 }

/**
 * Whether no text has both skeletons. As the name of a group may look like anything, texts with one differ for certain
 * only if they begin, or end, with literals that differ at some place.
 */
export function areDistinct(first: string, second: string): boolean {
  if (!first.includes(GROUP) && !second.includes(GROUP)) return first !== second
  const literals = [first, second].map((skeleton) => skeleton.split(/#|\{group\}/))
  const starts = literals.map(([start = '']) => [...start])
  const ends = literals.map((parts) => [...(parts.at(-1) ?? '')].reverse())
  return [starts, ends].some(([a = [], b = []]) =>
    a.some((character, index) => index < b.length && character !== b[index]),
  )
}

function fieldNamed(name: string): Part | undefined {
  if (name === 'group') return { kind: 'group' }
  const [isValue, digits = 1] = /^value(?::([1-9]\d?))?$/.exec(name) ?? []
  if (isValue && Number(digits) <= MAX_DIGITS) return { kind: 'value', digits: Number(digits) }
  return Object.hasOwn(dateFields, name) ? { kind: name as DateField } : undefined
}

function hasDigits({ kind }: Part): boolean {
  return kind !== 'text' && kind !== 'group'
}

function padded(value: number, digits: number): string {
  const text = String(Math.abs(value)).padStart(digits, '0')
  return value < 0 ? `-${text}` : text
}
