import { type Format, formatOf, type Part } from './format.ts'
import type { UsedGroups } from './numbering.ts'

/** Characters that may stand at a place of a text. */
interface Letter {
  letters: { only: string } | 'digit' | 'first digit' | 'any'
  /** Which part of the format it belongs to; empty: to none that tells numbers apart. */
  role: string
}

interface Move extends Letter {
  to: number
}

/** All texts of a format, as the ways from state 0 to the last one. */
interface Automaton {
  moves: Move[][]
  end: number
}

/** What is known of the numbers that are written. */
export interface Circumstances {
  /** No number is dealt by both formats, if it is of one period; so only different numbers, or dates, can look alike. */
  carriesOn: boolean
  /** There are periods, which the dates tell apart. */
  isDated: boolean
  /** Some may be below 0. */
  isSigned: boolean
  /** The groups that have numbers of both. */
  groups: UsedGroups
  /** How many steps the comparison may take, which takes them from it. Beyond, formats are taken to look alike. */
  effort: { left: number }
}

/**
 * Whether numbers of one group could be written the same by two formats.
 *
 * Walks through both formats at once, over all texts that fit both: what may be a number's digit in one, and a letter
 * in the other, may make two numbers look the same. Errs on the safe side.
 */
export function couldLookAlike(
  first: string | null,
  second: string | null,
  { carriesOn, isDated, isSigned, groups, effort }: Circumstances,
): boolean {
  return [false, true].some((isNamed) => {
    if (!(isNamed ? groups.isNamed : groups.isUnnamed)) return false
    const [a, b] = [first, second].map((format) =>
      formatOf(format, isNamed).filter(({ kind }) => isNamed || kind !== 'group'),
    )
    if (!a || !b) throw new Error('There are two')
    // Such texts are of the same length where their numbers are, and so have these in the same place.
    if (carriesOn && shapeOf(a) === shapeOf(b)) return false
    return couldMeet(a, b, { isAnyEnough: !carriesOn, isDated, isSigned, effort })
  })
}

/** A format, but for the digits to which numbers are filled up. */
function shapeOf(format: Format): string {
  return JSON.stringify(format.map((part) => (part.kind === 'value' ? part.kind : part)))
}

interface Wish {
  /** Whether a text that fits both is enough; or one is wanted that they divide into different parts. */
  isAnyEnough: boolean
  isDated: boolean
  isSigned: boolean
  effort: { left: number }
}

/** The name of the group is the same in both; how it is placed tells more than that it may be anything. */
function couldMeet(a: Format, b: Format, wish: Wish): boolean {
  const [left, right] = [a, b].map((format) => dividedAtGroup(format, wish.isDated))
  if (!left || !right) return meet(automatonOf(a, wish), automatonOf(b, wish), wish.isAnyEnough, wish.effort)
  const [near, far] = left.before.length <= right.before.length ? [left, right] : [right, left]
  const pairs = near.before.map((letter, index): [Letter, Letter | undefined] => [letter, far.before[index]])
  if (!pairs.every(([one, other]) => other && overlap(one, other))) return false
  const shift = far.before.slice(near.before.length)
  const differs =
    wish.isAnyEnough ||
    pairs.some(([one, other]) => one.role !== other?.role) ||
    shift.some(({ role }) => role !== '')
  // Where the name stands further behind in one, it must consist of what stands before it there, over and over. What
  // then follows in the other is the rest of that, turned round, and what follows here.
  const rest = automatonOf(near.after, wish)
  for (let turn = 0; turn < Math.max(1, shift.length); turn++) {
    const turned = [...shift.slice(turn), ...shift.slice(0, turn)]
    if (meet(rest, automatonOf(far.after, wish, turned), differs, wish.effort)) return true
  }
  return false
}

/** What comes before the group's name, if that is always of one length, and after it. */
function dividedAtGroup(
  format: Format,
  isDated: boolean,
): { before: readonly Letter[]; after: Format } | undefined {
  const index = format.findIndex(({ kind }) => kind === 'group')
  const before = format.slice(0, index)
  if (index < 0 || before.some(({ kind }) => kind === 'value')) return undefined
  return { before: before.flatMap((part) => lettersOf(part, isDated)), after: format.slice(index + 1) }
}

/** Whether some text fits both; if `differs` is not given beforehand, one that they divide differently. */
function meet(a: Automaton, b: Automaton, differs: boolean, effort: { left: number }): boolean {
  const seen = new Set<number>()
  const open: [number, number, boolean][] = [[0, 0, differs]]
  for (let state = open.pop(); state; state = open.pop()) {
    const [inA, inB, isApart] = state
    if (inA === a.end && inB === b.end && isApart) return true
    effort.left -= 1
    if (effort.left < 0) return true
    for (const left of a.moves[inA] ?? []) {
      for (const right of b.moves[inB] ?? []) {
        if (!overlap(left, right)) continue
        const next: [number, number, boolean] = [left.to, right.to, isApart || left.role !== right.role]
        const place = (left.to * b.moves.length + right.to) * 2 + (next[2] ? 1 : 0)
        if (!seen.has(place)) open.push(next)
        seen.add(place)
      }
    }
  }
  return false
}

function overlap({ letters: a }: Letter, { letters: b }: Letter): boolean {
  if (a === 'any' || b === 'any') return true
  if (typeof a === 'string') return typeof b === 'string' || ranges[a].test(b.only)
  return typeof b === 'string' ? ranges[b].test(a.only) : a.only === b.only
}

const ranges = { digit: /^\d$/, 'first digit': /^[1-9]$/ }

/** `before`: what comes before it. */
function automatonOf(format: Format, { isDated, isSigned }: Wish, before: readonly Letter[] = []): Automaton {
  const moves: Move[][] = [[]]
  let end = 0

  function link(from: number, letter: Letter, to = moves.push([]) - 1): number {
    moves[from]?.push({ ...letter, to })
    return to
  }

  function add(letter: Letter): void {
    end = link(end, letter)
  }

  /** As many digits as it is filled up to; or more, and then no 0 at first. */
  function addNumber(digits: number): void {
    const digit: Letter = { letters: 'digit', role: 'value' }
    const starts = [end]
    if (isSigned) starts.push(link(end, { letters: { only: '-' }, role: 'value' }))
    const last = moves.push([]) - 1
    for (const start of starts) {
      let filled = start
      let longer = link(start, { letters: 'first digit', role: 'value' })
      for (let count = 1; count < digits; count++) {
        filled = link(filled, digit)
        longer = link(longer, digit)
      }
      link(filled, digit, last)
      link(longer, digit, longer)
      link(longer, digit, last)
    }
    end = last
  }

  function addGroup(): void {
    const any: Letter = { letters: 'any', role: '' }
    add(any)
    link(end, any, end)
  }

  for (const letter of before) add(letter)
  for (const part of format) {
    if (part.kind === 'value') addNumber(part.digits)
    else if (part.kind === 'group') addGroup()
    else for (const letter of lettersOf(part, isDated)) add(letter)
  }
  return { moves, end }
}

/** What is written of a part that is always of one length. */
function lettersOf(part: Part, isDated: boolean): Letter[] {
  if (part.kind === 'value' || part.kind === 'group') throw new Error('It has no certain length')
  if (part.kind === 'text') return [...part.text].map((letter) => ({ letters: { only: letter }, role: '' }))
  return [...shapes[part.kind]].map((letter, index) => ({
    letters: letter === '0' ? 'digit' : { only: letter },
    role: isDated ? `${part.kind} ${index}` : '',
  }))
}

/** What dates look like; 0 is any digit. */
const shapes: Record<Exclude<Part['kind'], 'text' | 'group' | 'value'>, string> = {
  yyyy: '0000',
  yy: '00',
  MM: '00',
  dd: '00',
  HH: '00',
  week: '0000-W00',
}
