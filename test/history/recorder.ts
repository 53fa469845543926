import type { Answer, ApiOperation, CallOutcome, CallRecord } from './history.ts'

/** Sends a GraphQL operation, as a client of the tests does. Throws if there is no answer. */
type Send = (query: string) => Promise<{
  // The query is the type of its result.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  data?: any
  errors?: { extensions: { code: string; [detail: string]: unknown } }[]
}>

export interface Recorder {
  records: readonly CallRecord[]
  /** Calls once, and records it. */
  call(caller: string | number, send: Send, operation: ApiOperation): Promise<CallOutcome>
}

/** Records the calls of all callers that share it. */
export function createRecorder(now: () => number = () => performance.now()): Recorder {
  const records: CallRecord[] = []
  return {
    records,
    async call(caller, send, operation) {
      const sentAt = now()
      const outcome = await outcomeOf(send, operation)
      const answeredAt = outcome.kind === 'unknown' ? null : now()
      records.push({ caller: String(caller), operation, sentAt, answeredAt, outcome })
      return outcome
    },
  }
}

async function outcomeOf(send: Send, operation: ApiOperation): Promise<CallOutcome> {
  try {
    const { data, errors: [error] = [] } = await send(documentOf(operation))
    if (!error) return { kind: 'answered', answer: answerIn(data.result) }
    const { code, limit, value, index, lastValue, state, held } = error.extensions
    // It was not applied to some counters; nobody knows to which.
    const isUnknown = UNKNOWN.includes(code) || operation.kind === 'resetAll'
    if (isUnknown) return { kind: 'unknown' }
    return JSON.parse(JSON.stringify({ kind: 'refused', code, limit, value, index, lastValue, state, held }))
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } }
    if (cause?.code === 'ECONNREFUSED') return { kind: 'refused', code: cause.code }
    return { kind: 'unknown' }
  }
}

/** Codes that leave open whether the call was applied. */
const UNKNOWN = ['OUTCOME_UNKNOWN', 'INTERNAL_SERVER_ERROR']

function answerIn(result: (Answer & { group?: Answer }) | Answer[] | null): Answer | Answer[] | null {
  return result && 'group' in result && result.group ? result.group : (result as Answer | Answer[] | null)
}

const CHANGE = '{ value previousValue appliedDelta alreadyCounted replayed }'
const COUNTER = '{ value revision held heldDown minValue maxValue overflow }'
const GROUP = '{ lastValue nextValue revision }'
const RESERVATION = '{ id value formatted state }'
const HOLD = '{ id state expiresAt }'

const SELECTIONS: Record<ApiOperation['kind'], string> = {
  increment: CHANGE,
  uncount: CHANGE,
  incrementBy: CHANGE,
  incrementMany: CHANGE,
  reset: CHANGE,
  resetAll: '{ resetCount }',
  defineCounter: COUNTER,
  deleteCounter: CHANGE,
  counters: COUNTER,
  nextInSequence: '{ value lastValue formatted alreadyIssued replayed }',
  restartSequence: GROUP,
  reserveInSequence: RESERVATION,
  confirmReservation: RESERVATION,
  releaseReservation: RESERVATION,
  hold: HOLD,
  confirmHold: CHANGE,
  extendHold: HOLD,
  releaseHold: HOLD,
  defineSequence: '{ name }',
  deleteSequence: '{ name }',
  sequenceGroup: GROUP,
}

function documentOf({ kind, ...args }: ApiOperation): string {
  if (kind === 'sequenceGroup') {
    const { group = '', ...sequence } = args as Record<string, unknown>
    return `{ result: sequence${argumentsOf(sequence)} { group(name: ${literal(group)}) ${GROUP} } }`
  }
  const field = `{ result: ${kind}${argumentsOf(args)} ${SELECTIONS[kind]} }`
  return kind === 'counters' ? field : `mutation ${field}`
}

function argumentsOf(args: object): string {
  return `(${partsOf(args)})`
}

/** A value as a literal of GraphQL. */
function literal(value: unknown, name = ''): string {
  if (Array.isArray(value)) return `[${value.map((item) => literal(item)).join(', ')}]`
  if (value !== null && typeof value === 'object') return `{ ${partsOf(value)} }`
  return ENUMS.includes(name) && value !== null ? String(value) : JSON.stringify(value)
}

const ENUMS = ['overflow', 'oncePer', 'restartEvery']

function partsOf(object: object): string {
  return Object.entries(object)
    .flatMap(([name, value]) => (value === undefined ? [] : `${name}: ${literal(value, name)}`))
    .join(', ')
}
