import { type PathLike, readFileSync } from 'node:fs'
import type { ModelChange } from '../support/model/model.ts'

/**
 * A call of the API, as its caller saw it. A history is the records of a run, of all its callers, from an empty database
 * on: what is defined or set before the load starts is recorded, too. As a file, it is JSON, one record a line.
 */
export interface CallRecord {
  caller: string
  operation: ApiOperation
  /** Just before it was sent, in milliseconds, by one monotonic clock for all callers. */
  sentAt: number
  /** Just after its answer had arrived, by the same clock. Null: its outcome is unknown. */
  answeredAt: number | null
  outcome: CallOutcome
}

export type CallOutcome =
  /** What the field returned: a list for `incrementMany` and `counters`; null for `uncount` without effect. */
  | { kind: 'answered'; answer: Answer | readonly Answer[] | null }
  /** Surely not applied, with the code of the error. */
  | ({ kind: 'refused'; code: string } & RefusalDetails)
  /** Perhaps applied, at any time after it was sent: OUTCOME_UNKNOWN, INTERNAL_SERVER_ERROR, or no answer at all. */
  | { kind: 'unknown' }

/** A field of the API with its arguments, of which the optional ones have the defaults of the schema. */
export type ApiOperation = { namespace?: string | undefined } & (
  | ({ kind: 'increment'; name: string; subject?: string | undefined } & Keyed)
  | ({ kind: 'uncount'; name: string; subject: string } & Keyed)
  | ({ kind: 'incrementBy'; name: string; delta: number } & Keyed)
  | ({ kind: 'incrementMany'; changes: readonly { name: string; delta: number }[] } & Keyed)
  | ({
      kind: 'reset'
      name: string
      to?: number | undefined
      expectedValue?: number | undefined
      forgetSubjects?: boolean | undefined
    } & Keyed)
  | { kind: 'resetAll'; prefix?: string | undefined; to?: number | undefined }
  | { kind: 'defineCounter'; name: string; definition: CounterDefinitionChange }
  | { kind: 'deleteCounter'; name: string }
  /** Also for `counter`, as a list of one name. */
  | { kind: 'counters'; names: readonly string[] }
  | ({
      kind: 'nextInSequence'
      name: string
      group?: string | undefined
      count?: number | undefined
      subject?: string | undefined
    } & Keyed)
  | ({
      kind: 'restartSequence'
      name: string
      group?: string | undefined
      nextValue?: number | null | undefined
    } & Keyed)
  | ({
      kind: 'reserveInSequence'
      name: string
      group?: string | undefined
      ttlSeconds?: number | undefined
    } & Keyed)
  | { kind: 'confirmReservation' | 'releaseReservation'; id: string }
  | ({
      kind: 'hold'
      changes: readonly { name: string; delta: number }[]
      ttlSeconds?: number | undefined
    } & Keyed)
  /** Its answers are in the order of the counters' names: they were defined in that order. */
  | { kind: 'confirmHold'; id: string; changes?: readonly { name: string; delta: number }[] | undefined }
  | { kind: 'extendHold'; id: string; ttlSeconds?: number | undefined }
  | { kind: 'releaseHold'; id: string }
  | { kind: 'defineSequence'; name: string; definition: SequenceDefinitionChange }
  | { kind: 'deleteSequence'; name: string }
  /** `sequence { group { … } }` */
  | { kind: 'sequenceGroup'; name: string; group?: string | undefined }
)

interface Keyed {
  idempotencyKey?: string | undefined
}

/** As in the schema: an omitted part stays as it is, and null restores the default. */
export type CounterDefinitionChange = ModelChange & { oncePer?: string | null | undefined }

/** The same of a sequence. */
export interface SequenceDefinitionChange {
  startValue?: number | null | undefined
  step?: number | null | undefined
  minValue?: number | null | undefined
  maxValue?: number | null | undefined
  cycle?: boolean | null | undefined
  format?: string | null | undefined
  gapless?: boolean | null | undefined
  allowRepeats?: boolean | null | undefined
  restartEvery?: string | null | undefined
}

/** The parts of an answer that the caller requested and that are checked. What is left out is not checked. */
export interface Answer {
  /** Of a change to a counter: `value`, `previousValue`, `appliedDelta`, `alreadyCounted`, `replayed`. */
  value?: number | undefined
  previousValue?: number | undefined
  appliedDelta?: number | null | undefined
  alreadyCounted?: boolean | undefined
  replayed?: boolean | undefined
  /** Of a counter: `value`, `revision`, what is held, its bounds, and what happens there. */
  revision?: number | undefined
  held?: number | undefined
  heldDown?: number | undefined
  minValue?: number | null | undefined
  maxValue?: number | null | undefined
  overflow?: 'REJECT' | 'SATURATE' | undefined
  /** Of numbers of a sequence: `value`, `lastValue`, `formatted`, `alreadyIssued`, `replayed`. */
  lastValue?: number | null | undefined
  formatted?: string | undefined
  alreadyIssued?: boolean | undefined
  /** Of a sequence group: `lastValue`, `nextValue`, `revision`. */
  nextValue?: number | null | undefined
  /** Of a reservation: `id`, `value`, `formatted`, `state`. Of a hold: `id`, `state`, `expiresAt`. */
  id?: string | undefined
  expiresAt?: string | undefined
  state?: 'RESERVED' | 'CONFIRMED' | 'RELEASED' | 'EXPIRED' | undefined
}

/** Details of an error, as in its `extensions`. */
export interface RefusalDetails {
  limit?: number | undefined
  value?: number | undefined
  index?: number | undefined
  lastValue?: number | undefined
  state?: string | undefined
  held?: number | undefined
}

/** A record as a line of a file. */
export function lineOf(record: CallRecord): string {
  return `${JSON.stringify(record)}\n`
}

/** Reads the history in a file. A last line that was cut off is left out, as its run was killed. */
export function readHistory(file: PathLike): CallRecord[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  // What follows the last line break is empty, or was cut off.
  return lines.slice(0, -1).map((line) => JSON.parse(line))
}
