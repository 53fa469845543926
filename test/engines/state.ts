import type { Node } from './engine.ts'
import { queryNode } from './nodes.ts'

/** What a node has stored of all that was counted. */
export interface State {
  /** The value of each counter. */
  counters: Record<string, number>
  groups: { sequence: string; group: string; lastValue: number | null }[]
  /** Counters of which the sum of the hours, days or months is not the value. */
  unequal: string[]
  /** The numbers of the gapless sequence, by group. */
  invoices: Record<string, Invoices>
}

export interface Invoices {
  confirmed: number[]
  open: number[]
  free: number[]
}

const ADDED = ['hour', 'day', 'month'] as const
const CODES = { hour: 1, day: 2, month: 4 }

const totals = ADDED.map(
  (period) => `cast(coalesce(sum(v.${period}_added), 0) + coalesce(
         (select sum(h.value) from counter_history h where h.counter_id = c.id and h.period = ${CODES[period]}),
         0) as signed) as ${period}`,
)

const COUNTERS = `select convert(c.name using utf8mb4) as name, cast(sum(v.value) as signed) as value, ${totals}
  from namespace n
  join counter c on c.namespace_id = n.id
  join counter_value v on v.counter_id = c.id
 where n.name = ?
 group by c.id, c.name
 order by c.name`

const GROUPS = `select convert(s.name using utf8mb4) as sequence, convert(g.name using utf8mb4) as name, v.value
  from namespace n
  join sequence s on s.namespace_id = n.id
  join sequence_group g on g.sequence_id = s.id
  join sequence_value v on v.group_id = g.id
 where n.name = ?
 order by s.name, g.name`

const RESERVATIONS = `select convert(g.name using utf8mb4) as name, r.value, r.state, r.is_free
  from namespace n
  join sequence s on s.namespace_id = n.id
  join sequence_group g on g.sequence_id = s.id
  join reservation r on r.group_id = g.id
 where n.name = ?
 order by g.name, r.value`

export async function readState(node: Node, namespace: string): Promise<State> {
  const rowsOf = (select: string) => queryNode(node, 'use nth', select.replace('?', `'${namespace}'`))
  const state: State = { counters: {}, groups: [], unequal: [], invoices: {} }
  for (const { name, value, ...sums } of await rowsOf(COUNTERS)) {
    state.counters[name] = Number(value)
    if (ADDED.some((period) => Number(sums[period]) !== Number(value))) {
      state.unequal.push(`${name}: ${value}, in ${JSON.stringify(sums)}`)
    }
  }
  for (const { sequence, name, value } of await rowsOf(GROUPS))
    state.groups.push({ sequence, group: name, lastValue: value === null ? null : Number(value) })
  for (const { name, value, state: code, is_free: isFree } of await rowsOf(RESERVATIONS)) {
    state.invoices[name] ??= { confirmed: [], open: [], free: [] }
    if (code === 0) state.invoices[name].open.push(value)
    if (code === 1) state.invoices[name].confirmed.push(value)
    if (isFree === 1) state.invoices[name].free.push(value)
  }
  return state
}
