import { subscribe } from 'node:diagnostics_channel'
import { LRUCache } from 'lru-cache'
import pino, { type Level, type LevelWithSilent, type Logger } from 'pino'
import pretty from 'pino-pretty'
import type { Audited, RequestMeasure } from './measures.ts'

/** What the operator of a process hears of it: one object, made where the process starts. */
export interface Notices {
  /** Progress of the start, and what is good to know then, as a sentence. */
  info: (message: string) => void
  /** Something that an operator may have to act on, such as an outage, as a sentence. */
  warn: (message: string) => void
  /** An unexpected error, with its cause. */
  fault: (error: unknown) => void
}

/** For work whose failures are reported otherwise. */
export const SILENT: Notices = { info: () => undefined, warn: () => undefined, fault: () => undefined }

/** Maximum of the log that waits until it can be written, in bytes. Lines beyond that are dropped. */
const MAX_UNWRITTEN = 1_000_000

/**
 * Opens the log of this process, on the standard error: JSON, or on a terminal lines for people. So is progress of the start,
 * on the standard output, at any level: what collects both gets lines of one form.
 */
export function openLog(level: LevelWithSilent): Notices {
  // Synchronous, so that the last lines before the end of the process are not lost.
  const isTerminal = process.stderr.isTTY
  const destination = isTerminal
    ? pretty({ destination: 2, sync: true, ignore: 'pid,hostname,name' })
    : linesTo(2)
  const log = pino({ name: 'nth', level }, destination)
  const logsAll = log.isLevelEnabled('debug')
  subscribe('nth:request', (message) => {
    // The channel's messages are measures.
    const measure = message as RequestMeasure
    if (logsAll || measure.code !== undefined) logRequest(log, measure)
  })
  subscribe('nth:audit', (message) => {
    const { requestId, ...audit } = message as Audited
    // Apart, as each line has the name of the log.
    log.info({ requestId, audit }, 'Audit')
  })
  const progress = pino({ name: 'nth' }, linesTo(1))
  return {
    info: process.stdout.isTTY ? console.log : (message) => progress.info(message),
    warn: (message) => log.warn(message),
    fault: faultLog(log),
  }
}

/** Says why a process that serves ends at its start, in the form of its log. */
export function logEnd(message: string): void {
  if (process.stderr.isTTY) console.error(message)
  else pino({ name: 'nth' }, linesTo(2)).fatal(message)
}

function linesTo(dest: number) {
  const file = pino.destination({ dest, sync: true, maxLength: MAX_UNWRITTEN })
  // A log that can't be written, as its disk is full, must not end the service: the next line tries again.
  file.on('error', () => undefined)
  return file
}

/** How often the same unexpected error is logged, in milliseconds. */
const REPEAT_MS = 60_000
/** Unexpected errors that are distinguished. */
const MAX_FAULTS = 100

/** Logs each unexpected error, but the same one at most once a minute, with how often it came in between. */
function faultLog(log: Logger): Notices['fault'] {
  const faults = new LRUCache<string, { at: number; repeated: number }>({ max: MAX_FAULTS })
  return (error) => {
    const place = placeOf(error)
    const at = performance.now()
    const last = faults.get(place)
    if (last && at - last.at < REPEAT_MS) {
      last.repeated += 1
      return
    }
    faults.set(place, { at, repeated: 0 })
    if (last && last.repeated > 0) log.error({ err: error, repeated: last.repeated }, reasonIn(error))
    else log.error(error)
  }
}

/** The code of an error, and the functions that it comes from: its message may have a value in it. */
function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { stack = error.message, code }: NodeJS.ErrnoException = error
  return `${code} ${stack.slice(Math.max(0, stack.indexOf('\n    at ')))}`
}

function reasonIn(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Levels of requests that failed through no mistake of the caller, by their codes. */
export const FAILURE_LEVELS: Partial<Record<string, Level>> = {
  INTERNAL_SERVER_ERROR: 'error',
  UNAVAILABLE: 'warn',
  OUTCOME_UNKNOWN: 'warn',
}

/** Logs a request without the text of its operation and its variables, which may be secret. */
function logRequest(log: Logger, measure: RequestMeasure): void {
  const { operation, operationName, code, key, reason, durationMs } = measure
  const level = code === undefined ? 'debug' : (FAILURE_LEVELS[code] ?? 'info')
  if (!log.isLevelEnabled(level)) return
  const outcome = code === undefined ? 'Request answered' : 'Request failed'
  const ms = Math.round(durationMs * 10) / 10
  log[level]({ requestId: measure.id, code, reason, operation, operationName, key, durationMs: ms }, outcome)
}
