import { setTimeout as pause } from 'node:timers/promises'
import { type Book, balanceOf } from './book.ts'
import type { Confirmed } from './callers/invoices.ts'
import type { Checks } from './checks.ts'
import type { Node } from './engine.ts'
import { readState, type State } from './state.ts'

/** What callers were answered. */
export interface Answers {
  book: Book
  confirmed: Confirmed
}

export interface Verdict {
  lost: number
  twice: number
}

const CATCH_UP_MS = 120_000

/** Compares all that callers were answered with what every node has stored, when nobody calls any more. */
export async function audit(nodes: readonly Node[], answers: Answers, checks: Checks): Promise<Verdict> {
  const states = await equalStates(nodes)
  const [first, ...others] = states
  const isEqual = others.every((state) => JSON.stringify(state) === JSON.stringify(first))
  checks.check('all nodes have stored the same', isEqual)
  const verdict: Verdict = { lost: 0, twice: 0 }
  for (const [index, state] of states.entries()) {
    const found = [...auditAccounts(state, answers.book), auditInvoices(state, answers.confirmed)]
    const where = `on node ${index + 1}`
    for (const { kind, twice, lost, excess } of found) {
      checks.check(`${kind} ${where}: no number was given twice`, twice === 0, twice)
      checks.check(`${kind} ${where}: no number that was given is lost`, lost === 0, lost)
      checks.check(`${kind} ${where}: nothing is stored that nobody requested`, excess === 0, excess)
    }
    verdict.twice = Math.max(verdict.twice, sum(found.map(({ twice }) => twice)))
    verdict.lost = Math.max(verdict.lost, sum(found.map(({ lost }) => lost)))
    checks.check(
      `hours, days and months add up ${where}`,
      state.unequal.length === 0,
      state.unequal.slice(0, 5),
    )
    const carts = ['', 'keyed '].map((prefix) =>
      ['a', 'b', 'c'].map((name) => state.values[`${prefix}cart ${name}`]),
    )
    checks.check(
      `carts are whole ${where}`,
      carts.every((values) => new Set(values).size === 1),
      carts,
    )
    const gaps = Object.entries(state.invoices).filter(([, { confirmed, open, free }]) => {
      const all = [...confirmed, ...open, ...free].toSorted((a, b) => a - b)
      return all.some((value, place) => value !== place + 1)
    })
    checks.check(`invoices have no gap ${where}`, gaps.length === 0, Object.fromEntries(gaps))
  }
  return verdict
}

/** What the nodes have stored, as soon as it is the same on all, or at last. */
async function equalStates(nodes: readonly Node[]): Promise<State[]> {
  const deadline = performance.now() + CATCH_UP_MS
  while (true) {
    const states = await Promise.all(nodes.map(readState))
    const isEqual = new Set(states.map((state) => JSON.stringify(state))).size === 1
    if (isEqual || performance.now() > deadline) return states
    await pause(500)
  }
}

interface Finding extends Verdict {
  kind: string
  excess: number
}

function auditAccounts({ values }: State, { accounts }: Book): Finding[] {
  return [...accounts].map(([kind, ofKind]) => {
    const balances = [...ofKind].map(([name, account]) => balanceOf(account, values[name] ?? 0))
    return {
      kind,
      twice: sum(balances.map(({ twice }) => twice)),
      lost: sum(balances.map(({ lost }) => lost)),
      excess: sum(balances.map(({ excess }) => excess)),
    }
  })
}

/** A confirmation is sent until it is answered, so that all that is stored was answered. */
function auditInvoices({ invoices }: State, confirmed: Confirmed): Finding {
  const finding: Finding = { kind: 'invoices', twice: 0, lost: 0, excess: 0 }
  for (const group of new Set([...confirmed.keys(), ...Object.keys(invoices)])) {
    const given = confirmed.get(group) ?? []
    const distinct = new Set(given)
    const stored = invoices[group]?.confirmed ?? []
    const storedOnce = new Set(stored)
    finding.twice += given.length - distinct.size + stored.length - storedOnce.size
    finding.lost += [...distinct].filter((value) => !storedOnce.has(value)).length
    finding.excess += stored.filter((value) => !distinct.has(value)).length
  }
  return finding
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
