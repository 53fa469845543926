import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CheckResult, Fault } from './check.ts'
import { type CallRecord, lineOf } from './history.ts'

/** How many calls before and after the one at fault are shown. */
const AROUND = 15

/**
 * Keeps what is wrong with a history as files: of each fault a text and a picture of the calls around it, and all calls
 * of its component, as lines of a history and for Elle, Knossos and porcupine.
 */
export function writeFaults(directory: string, { faults }: CheckResult): void {
  mkdirSync(directory, { recursive: true })
  for (const [index, fault] of faults.entries()) {
    const forms = {
      txt: textOf,
      svg: pictureOf,
      jsonl: ({ calls }: Fault) => calls.map(lineOf).join(''),
      edn: ednOf,
    }
    for (const [extension, form] of Object.entries(forms))
      writeFileSync(join(directory, `fault-${index + 1}.${extension}`), form(fault))
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
export function textOf(fault: Fault): string {
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

const WIDTH = 1200
const LANE = 26

/** A lane for each caller, with a bar from the call to its answer. */
function pictureOf(fault: Fault): string {
  const calls = around(fault)
  const callers = [...new Set(calls.map(({ caller }) => caller))]
  const start = Math.min(...calls.map(({ sentAt }) => sentAt))
  const end = Math.max(...calls.map(({ sentAt, answeredAt }) => answeredAt ?? sentAt))
  const x = (at: number) => 80 + ((WIDTH - 100) * (at - start)) / Math.max(end - start, 1e-3)
  const lanes = callers.map((caller, lane) => `<text x="4" y="${lane * LANE + 40}">${escaped(caller)}</text>`)
  const bars = calls.map((record) => {
    const { caller, sentAt, answeredAt } = record
    const y = callers.indexOf(caller) * LANE + 26
    const width = Math.max(x(answeredAt ?? end) - x(sentAt), 2)
    const color = record === fault.call ? '#d33' : answeredAt === null ? '#ccc' : '#9cf'
    return `<g><title>${escaped(JSON.stringify(record))}</title>
<rect x="${x(sentAt).toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="18" fill="${color}" stroke="#333"/>
<text x="${(x(sentAt) + 3).toFixed(1)}" y="${y + 13}">${escaped(nameOf(record))}</text></g>`
  })
  const size = `width="${WIDTH}" height="${callers.length * LANE + 40}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="10">
<text x="4" y="14" font-size="12">${escaped(fault.message.slice(0, 180))}</text>
${[...lanes, ...bars].join('\n')}\n</svg>\n`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

/** A history of Jepsen: a map for each invocation and completion. Who has no answer never calls again as that process. */
function ednOf({ calls }: Fault): string {
  const processes = new Map<number, number>()
  const events = calls
    .flatMap((record, index) => [
      { record, index, at: record.sentAt, isSent: true },
      { record, index, at: record.answeredAt ?? Infinity, isSent: false },
    ])
    .toSorted((a, b) => a.at - b.at || Number(b.isSent) - Number(a.isSent))
  const free: number[] = []
  return events
    .map(({ record, index, at, isSent }) => {
      const process = processes.get(index) ?? free.pop() ?? processes.size
      processes.set(index, process)
      if (!isSent && record.answeredAt !== null) free.push(process)
      const { kind, ...args } = record.operation
      const { outcome } = record
      const type = isSent ? ':invoke' : { answered: ':ok', refused: ':fail', unknown: ':info' }[outcome.kind]
      const result = outcome.kind === 'answered' ? outcome.answer : outcome
      const value = isSent ? edn(args) : `[${edn(args)} ${edn(result)}]`
      const time = Number.isFinite(at) ? ` :time ${Math.round(at * 1e6)}` : ''
      return `{:process ${process} :type ${type} :f :${kind} :value ${value}${time}}\n`
    })
    .join('')
}

function edn(value: unknown): string {
  if (value === null || value === undefined) return 'nil'
  if (Array.isArray(value)) return `[${value.map(edn).join(' ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, part]) => `:${name} ${edn(part)}`)
    .join(' ')}}`
}
