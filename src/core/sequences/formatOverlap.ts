import type { UsedSequenceGroups } from './definition.ts'
import { dateFields, formatOf } from './format.ts'

/** What is known about the numbers issued in two formats. */
interface Circumstances {
  /** No number is issued in both formats, except in different periods. */
  carriesOn: boolean
  /** The sequence restarts with each period, and the dates in both formats show which period it is. */
  isDated: boolean
  /** Numbers may be negative. */
  isSigned: boolean
  /** The sequence groups with numbers in both formats. */
  groups: UsedSequenceGroups
}

/**
 * Whether numbers of one sequence group could look the same in two formats. A few rules, stated in docs/sequences.md,
 * prove that they can't; if none of them applies, the formats count as overlapping. Runs in time linear in the formats'
 * length: an exact comparison, as automata, blocked the event loop for seconds.
 */
export function formatsOverlap(
  first: string | null,
  second: string | null,
  { carriesOn, isDated, isSigned, groups }: Circumstances,
): boolean {
  const kinds = [...(groups.isNamed ? [true] : []), ...(groups.isUnnamed ? [false] : [])]
  return kinds.some((isNamed) => {
    const [a, b] = [placesOf(first, isNamed), placesOf(second, isNamed)] as const
    const directions = [[a, b] as const, [a.toReversed(), b.toReversed()] as const]
    return !(
      haveOtherCharacters(a, b, isSigned) ||
      directions.some(([one, other]) => differFromStart(one, other, isSigned)) ||
      // Equal texts would show the same number of the same period, and none is issued twice.
      (carriesOn && JSON.stringify(a) === JSON.stringify(b)) ||
      (carriesOn && !isDated && directions.some(([one, other]) => beginWithNumber(one, other, isSigned)))
    )
  })
}

/**
 * A place in a format: a character of its text; or, as a longer string, a digit of a date (`yyyy 0`), the number
 * without its width, or the sequence group's name.
 */
type Place = string

const NUMBER = 'number'
const GROUP = 'group'

type Places = readonly Place[]

/** Whether a non-digit character occurs more often in all texts of one. The name of a group adds the same to both. */
function haveOtherCharacters(a: Places, b: Places, isSigned: boolean): boolean {
  const surplus = new Map<Place, number>()
  for (const place of a) surplus.set(place, (surplus.get(place) ?? 0) + 1)
  for (const place of b) surplus.set(place, (surplus.get(place) ?? 0) - 1)
  const groups = surplus.get(GROUP) ?? 0
  return [...surplus].some(([place, more]) => {
    const isMore = Math.abs(more) > (place === '-' && isSigned ? 1 : 0)
    return isMore && groups * more >= 0 && isImpossibleAt(NUMBER, place, false)
  })
}

/** Whether, read from the start, all texts of both differ at a known place. */
function differFromStart(a: Places, b: Places, isSigned: boolean): boolean {
  for (const [index, one] of a.entries()) {
    const other = b[index]
    if (other === undefined || (one === GROUP) !== (other === GROUP)) return false
    if (isImpossibleAt(one, other, isSigned) || isImpossibleAt(other, one, isSigned)) return true
    if (one === NUMBER || other === NUMBER) return false
  }
  return false
}

/** Whether both begin with the number, up to a character that can't be part of it. */
function beginWithNumber(a: Places, b: Places, isSigned: boolean): boolean {
  return [a, b].every(([first, next = '0']) => first === NUMBER && isImpossibleAt(NUMBER, next, isSigned))
}

/** Whether a place has a character that is impossible at another place; at the number, as its first or last one. */
function isImpossibleAt(other: Place, place: Place, isSigned: boolean): boolean {
  // A character has one or two UTF-16 code units.
  const isText = (one: Place) => one.length <= 2
  if (!isText(place) || isText(other)) return isText(place) && place !== other
  return !/^\d$/.test(place) && !(place === '-' && other === NUMBER && isSigned)
}

/** The places of a format. An unnamed sequence group has none. */
function placesOf(format: string | null, isNamed: boolean): Places {
  return formatOf(format, isNamed).flatMap((part): Places => {
    if (part.kind === 'text') return [...part.text]
    if (part.kind === 'value') return [NUMBER]
    if (part.kind === 'group') return isNamed ? [GROUP] : []
    const { kind } = part
    return [...dateFields[kind](ZEROS)].map((text, index) => (text === '0' ? `${kind} ${index}` : text))
  })
}

/** A date whose digits are all 0. */
const ZEROS = { year: 0, month: 0, day: 0, hour: 0, weekYear: 0, week: 0 }
