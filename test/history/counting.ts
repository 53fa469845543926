import { applyPart, counted, type Part } from './model.ts'
import type { Judgement } from './parts.ts'

/** A part whose answer says where it stands: it took the numbers above `after`, up to `upTo`. A read takes none. */
interface Place {
  part: Part
  after: number
  upTo: number
}

/** Whether parts only count up and read, with numbers, from 0: then the numbers are the order. */
export function isCounting(parts: readonly Part[]): boolean {
  const [first] = parts
  return parts.every((part) => {
    const width = widthOf(part)
    if (part.rows[0] !== first?.rows[0] || part.key !== undefined || width === undefined) return false
    return part.outcome.kind === 'unknown' ? width === 1 : placeOf(part, width) !== undefined
  })
}

/**
 * Decides in linear time whether such parts are linearizable, apart from sorting: no number twice, none that contradicts
 * real time, and none that is missing unless calls with unknown outcome can have taken it.
 */
export function countingFault(parts: readonly Part[]): Judgement | undefined {
  const places = parts
    .flatMap((part) => placeOf(part, widthOf(part) ?? 0) ?? [])
    .toSorted(
      (a, b) => a.upTo - b.upTo || b.upTo - b.after - (a.upTo - a.after) || sentAt(a.part) - sentAt(b.part),
    )
  const unknown = parts
    .filter(({ outcome }) => outcome.kind === 'unknown')
    .map(sentAt)
    .toSorted((a, b) => a - b)
  // Until when what stands before a place must have been sent: the first answer from there on.
  const deadlines = places.map(({ part }) => part.until)
  for (let index = deadlines.length - 2; index >= 0; index--)
    deadlines[index] = Math.min(deadlines[index] ?? Infinity, deadlines[index + 1] ?? Infinity)

  let reached = 0
  let missing = 0
  let possible = 0
  let lastSent = -Infinity
  for (const [index, { part, after, upTo }] of places.entries()) {
    const deadline = deadlines[index] ?? Infinity
    const fault = (message: string): Judgement => ({ kind: 'fault', message, call: part.record })
    if (after < reached) return fault(`number ${after + 1} was given before`)
    missing += after - reached
    while ((unknown[possible] ?? Infinity) <= deadline) possible++
    if (missing > possible)
      return fault(
        `${missing} numbers up to ${after} were given to nobody, with ${possible} unknown calls that may have them`,
      )
    if (part.until < lastSent) return fault(`number ${upTo} was answered before a lower one was requested`)
    if (applyPart(counted(part, after), part, 0).length === 0) return fault('the answer contradicts itself')
    reached = upTo
    lastSent = Math.max(lastSent, sentAt(part))
  }
  return undefined
}

function sentAt({ record }: Part): number {
  return record.sentAt
}

/** How many numbers a part takes; undefined: it does something else. */
function widthOf({ operation }: Part): number | undefined {
  switch (operation.kind) {
    case 'increment':
      return operation.subject === undefined ? 1 : undefined
    case 'incrementBy':
      return operation.delta > 0 ? operation.delta : undefined
    case 'nextInSequence':
      return operation.subject === undefined ? (operation.count ?? 1) : undefined
    case 'counter':
    case 'sequenceGroup':
      return 0
    default:
      return undefined
  }
}

function placeOf(part: Part, width: number): Place | undefined {
  const { operation, outcome } = part
  const [answer] = outcome.kind === 'answered' ? [outcome.answer].flat() : []
  if (!answer) return undefined
  if (operation.kind === 'sequenceGroup') {
    const { lastValue } = answer
    return lastValue === undefined ? undefined : { part, after: lastValue ?? 0, upTo: lastValue ?? 0 }
  }
  if (answer.value === undefined) return undefined
  // Of a block, the first number is its value.
  const after = operation.kind === 'nextInSequence' ? answer.value - 1 : answer.value - width
  return { part, after, upTo: after + width }
}
