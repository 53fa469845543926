import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CheckResult, Fault } from './check.ts'
import { type CallRecord, lineOf } from './history.ts'

/** How many calls before and after the one at fault are shown. */
const AROUND = 15

/**
 * Keeps what is wrong with a history as files: of each fault a text of the calls around it, and all calls of its component
 * as lines of a history.
 */
export function writeFaults(directory: string, { faults }: CheckResult): void {
  mkdirSync(directory, { recursive: true })
  for (const [index, fault] of faults.entries()) {
    const file = (extension: string) => join(directory, `fault-${index + 1}.${extension}`)
    writeFileSync(file('txt'), textOf(fault))
    writeFileSync(file('jsonl'), fault.calls.map(lineOf).join(''))
  }
}

/** What was checked, in one line, and what is wrong or unknown, in one each. */
export function summaryOf({ calls, components, faults, givenUp }: CheckResult): string {
  return [
    `${calls} calls, ${components} components: ${faults.length} faults, ${givenUp.length} given up`,
    ...faults.map(({ rows, message }) => `fault in ${rows}: ${message}`),
    ...givenUp.map(({ rows, reason }) => `given up ${rows}: ${reason}`),
  ].join('\n')
}

/** The calls around a fault, in the order in which they were sent. */
function textOf(fault: Fault): string {
  const lines = around(fault).map((record) => {
    const { caller, operation, sentAt, answeredAt, outcome } = record
    const { kind, ...rest } = outcome
    const times = `${sentAt.toFixed(3)} to ${answeredAt?.toFixed(3) ?? '?'}`
    const mark = record === fault.call ? '>' : ' '
    return `${mark} ${times.padEnd(26)} ${caller}: ${nameOf(record)} ${JSON.stringify(operation)}\n      ${kind} ${JSON.stringify(rest)}`
  })
  return `${fault.rows.join(', ')}\n${fault.message}\n\n${lines.join('\n')}\n`
}

function around({ calls, call }: Fault): readonly CallRecord[] {
  const place = calls.indexOf(call)
  return calls.slice(Math.max(0, place - AROUND), place + AROUND + 1)
}

function nameOf({ operation: { kind }, outcome }: CallRecord): string {
  if (outcome.kind !== 'answered') return `${kind} ${outcome.kind === 'refused' ? outcome.code : '?'}`
  const values = [outcome.answer].flat().map((answer) => answer?.value ?? answer?.lastValue ?? '')
  return `${kind} ${values.join(' ')}`
}
