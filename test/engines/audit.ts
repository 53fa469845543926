import { setTimeout as pause } from 'node:timers/promises'
import type { CallRecord } from '../history/history.ts'
import type { Checks } from './checks.ts'
import type { Node } from './engine.ts'
import { INVOICES } from './load.ts'
import { readState, type State } from './state.ts'

const CATCH_UP_MS = 120_000

/**
 * Compares what every node has stored, when nobody calls any more. Returns it as the last calls of the history, which
 * must fit the others.
 */
export async function audit(
  nodes: readonly Node[],
  namespace: string,
  history: readonly CallRecord[],
  checks: Checks,
): Promise<CallRecord[]> {
  const sentAt = performance.now()
  const states = await equalStates(nodes, namespace)
  const [first = { counters: {}, groups: [], unequal: [], invoices: {} }, ...others] = states
  const isEqual = others.every((state) => JSON.stringify(state) === JSON.stringify(first))
  checks.check('all nodes have stored the same', isEqual)
  checks.check('hours, days and months add up', first.unequal.length === 0, first.unequal.slice(0, 5))
  auditInvoices(first, history, checks)

  const record = { caller: 'node', sentAt, answeredAt: performance.now() }
  const names = Object.keys(first.counters)
  const answer = Object.values(first.counters).map((value) => ({ value }))
  const groups = first.groups.filter(({ sequence }) => sequence !== INVOICES)
  return [
    { ...record, operation: { kind: 'counters', namespace, names }, outcome: { kind: 'answered', answer } },
    ...groups.map(({ sequence, group, lastValue }): CallRecord => {
      const operation = { kind: 'sequenceGroup' as const, namespace, name: sequence, group }
      return { ...record, operation, outcome: { kind: 'answered', answer: { lastValue } } }
    }),
  ]
}

/** What the nodes have stored, as soon as it is the same on all, or at last. */
async function equalStates(nodes: readonly Node[], namespace: string): Promise<State[]> {
  const deadline = performance.now() + CATCH_UP_MS
  while (true) {
    const states = await Promise.all(nodes.map((node) => readState(node, namespace)))
    const isEqual = new Set(states.map((state) => JSON.stringify(state))).size === 1
    if (isEqual || performance.now() > deadline) return states
    await pause(500)
  }
}

/** A confirmation is sent until it is answered, so that all that is stored was answered. */
function auditInvoices({ invoices }: State, history: readonly CallRecord[], checks: Checks): void {
  const groupOf = new Map<string | undefined, string>()
  const answered = new Set<string>()
  for (const { operation, outcome } of history) {
    const [answer] = outcome.kind === 'answered' ? [outcome.answer].flat() : []
    if (operation.kind === 'reserveInSequence') groupOf.set(answer?.id, operation.group ?? '')
    if (operation.kind === 'confirmReservation' && answer)
      answered.add(`${groupOf.get(operation.id)}: ${answer.value}`)
  }
  const stored = Object.entries(invoices).flatMap(([group, { confirmed }]) =>
    confirmed.map((value) => `${group}: ${value}`),
  )
  const isSame = stored.length === answered.size && stored.every((invoice) => answered.has(invoice))
  checks.check('exactly those invoices are stored whose confirmation was answered', isSame, {
    stored: stored.length,
    answered: answered.size,
  })
  const gaps = Object.entries(invoices).filter(([, { confirmed, open, free }]) => {
    const all = [...confirmed, ...open, ...free].toSorted((a, b) => a - b)
    return all.some((value, place) => value !== place + 1)
  })
  checks.check('invoices have no gap', gaps.length === 0, Object.fromEntries(gaps))
}
