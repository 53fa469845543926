import type { Target } from '../../../src/mysql/settings.ts'
import type { Nth } from '../../../src/repository/nth.ts'
import { claimOf } from '../../../src/rules/idempotency.ts'
import { query } from '../database/database.ts'
import { defaults, forecast, latestOf, type SequenceModel } from './sequenceModel.ts'
import { GROUPS, KEYS } from './sequenceOperations.ts'

/** All that is there of the sequence, so that nothing of it is left to be guessed. */
export async function present(target: Target, sequences: Nth['sequences'] | undefined) {
  if (!sequences) throw new Error('There are two')
  const { definition } = await sequences.read({ namespace: 'n', name: 's' })
  const groups = await Promise.all(
    GROUPS.map(async (group) => {
      const { lastValue, lastFormatted, nextValue } = await sequences.readSequenceGroup({
        namespace: 'n',
        sequence: 's',
        group,
      })
      return [lastValue, lastFormatted, nextValue]
    }),
  )
  const rows = await query(
    target,
    `select g.name, v.period_key, v.value, v.next_value
       from sequence s
       join sequence_group g on g.sequence_id = s.id
       join sequence_value v on v.group_id = g.id
      where coalesce(v.value, v.next_value) is not null`,
  )
  const keys = await query(
    target,
    'select lower(hex(hash)) hash, results from idempotency_key where results is not null',
  )
  const positions = rows.map(({ name, period_key, value, next_value }) => [
    `${name.toString('utf8')} ${periodKeyText(period_key)}`,
    value,
    next_value,
  ])
  return {
    definition: definition ?? defaults,
    groups,
    positions: new Map(positions.map(([key, ...rest]) => [key, rest])),
    keys: KEYS.map((key) => {
      const { hash } = claimOf('n', key, [])
      const results = keys.find((row) => row.hash === hash)?.results
      const [issued] = results ? JSON.parse(results) : []
      return issued && [issued.value, issued.lastValue]
    }),
  }
}

/** The same of a model's. */
export function held(model: SequenceModel, at: number) {
  return {
    definition: model.definition,
    groups: GROUPS.map((group) => [...latestOf(model, group), forecast(model, group, at)]),
    positions: new Map(
      Object.entries(model.groups).flatMap(([group, { rows }]) =>
        Object.entries(rows).map(([periodKey, { last, next }]) => [`${group} ${periodKey}`, [last, next]]),
      ),
    ),
    keys: KEYS.map((key) => {
      const answer = model.keys[key]?.answer
      return answer && [answer.value, answer.lastValue]
    }),
  }
}

/** A period key as the model writes it. */
export function periodKeyText(periodKey: number): string {
  const digits = String(periodKey)
  if (digits.length === 7) return `${digits.slice(0, 4)} week ${Number(digits.slice(4))}`
  const shapes: Record<number, string> = { 4: '$1', 6: '$1-$2', 8: '$1-$2-$3', 10: '$1-$2-$3T$4' }
  return digits.replace(/^(\d{4})?(\d\d)?(\d\d)?(\d\d)?.*$/, shapes[digits.length] ?? '')
}

/** A period key of the model as the database has it. */
export function periodKeyIn(text: string): number {
  const [year, week] = text.split(' week ')
  return week === undefined ? Number(text.replace(/\D/g, '')) : Number(year) * 1000 + Number(week)
}
