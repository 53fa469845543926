import type { UsedSequenceGroups } from './definition.ts'
import { dateFields, type Format, formatOf } from './format.ts'

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
  { groups, ...circumstances }: Circumstances,
): boolean {
  const kinds = [...(groups.isNamed ? [true] : []), ...(groups.isUnnamed ? [false] : [])]
  return kinds.some((isNamed) => {
    const a = placesOf(formatOf(first, isNamed), isNamed)
    const b = placesOf(formatOf(second, isNamed), isNamed)
    return !(
      differFromStart(a, b, circumstances) ||
      differFromStart(a.toReversed(), b.toReversed(), circumstances) ||
      haveSameNumber(a, b, circumstances) ||
      hasMore(a, b, circumstances) ||
      hasMore(b, a, circumstances)
    )
  })
}

/**
 * A place in a format: a character of its text; or, as a longer string, a digit of a date (`yyyy 0`), the number, or
 * the sequence group's name.
 */
type Place = string

const NUMBER = 'number'
const GROUP = 'group'

type Places = readonly Place[]

type Numbers = Omit<Circumstances, 'groups'>

/**
 * Whether equal texts would show the same number of the same period. If no number is issued twice, there are then no
 * equal texts.
 */
function haveSameNumber(a: Places, b: Places, { carriesOn, isDated, isSigned }: Numbers): boolean {
  if (!carriesOn) return false
  // Equal except for the number's width: in equal texts the number and the dates have the same places and lengths.
  if (a.length === b.length && a.every((place, index) => place === b[index])) return true
  // The number is at the same end of both, up to a character that can't be part of it.
  const delimits = (place: Place | undefined) => canDelimit(place, isSigned)
  const isFirst = [a, b].every(([first, next]) => first === NUMBER && delimits(next))
  const isLast = [a, b].every((places) => places.at(-1) === NUMBER && delimits(places.at(-2)))
  return !isDated && (isFirst || isLast)
}

/**
 * Whether some non-digit character occurs more often in each text of one format than in any of the other. If both show
 * the sequence group's name, it adds the same to both.
 */
function hasMore(one: Places, other: Places, { isSigned }: Numbers): boolean {
  if (other.includes(GROUP) && !one.includes(GROUP)) return false
  const inOther = charactersIn(other)
  return [...charactersIn(one)].some(([character, count]) => {
    const sign = isSigned && character === '-' ? 1 : 0
    return count > (inOther.get(character) ?? 0) + sign
  })
}

/** Whether, read from the start, all texts of both differ at a known place. */
function differFromStart(a: Places, b: Places, { isSigned }: Numbers): boolean {
  for (const [index, left] of a.entries()) {
    const right = b[index]
    if (right === undefined) return false
    if (left === GROUP && right === GROUP) continue
    if (left === GROUP || right === GROUP) return false
    if (areDifferent(left, right, isSigned)) return true
    if (left === NUMBER || right === NUMBER) return false
  }
  return false
}

/** Whether no character is possible at both places; for a number, its first or last one. */
function areDifferent(a: Place, b: Place, isSigned: boolean): boolean {
  if (isText(a) && isText(b)) return a !== b
  if (!isText(a) && !isText(b)) return false
  const [text, other] = isText(a) ? [a, b] : [b, a]
  return !isDigit(text) && !(text === '-' && other === NUMBER && isSigned)
}

function canDelimit(place: Place | undefined, isSigned: boolean): boolean {
  return place !== undefined && isText(place) && !isDigit(place) && !(place === '-' && isSigned)
}

/** A character has one or two UTF-16 code units. */
function isText(place: Place): boolean {
  return place.length <= 2
}

/** How often each non-digit character occurs in a format. */
function charactersIn(places: Places): Map<string, number> {
  const counts = new Map<string, number>()
  for (const place of places) {
    if (isText(place) && !isDigit(place)) counts.set(place, (counts.get(place) ?? 0) + 1)
  }
  return counts
}

function isDigit(character: string): boolean {
  return character >= '0' && character <= '9' && character.length === 1
}

/** The places of a format, without the number's width. An unnamed sequence group has no place. */
function placesOf(format: Format, isNamed: boolean): Places {
  return format.flatMap((part): Places => {
    if (part.kind === 'text') return [...part.text]
    if (part.kind === 'value') return [NUMBER]
    if (part.kind === 'group') return isNamed ? [GROUP] : []
    const { kind } = part
    return [...dateFields[kind](ZEROS)].map((text, index) => (text === '0' ? `${kind} ${index}` : text))
  })
}

/** A date whose digits are all 0. */
const ZEROS = { year: 0, month: 0, day: 0, hour: 0, weekYear: 0, week: 0 }
