import { describe, expect, it } from 'vitest'
import type { CounterWork } from '../../src/commit/batch.ts'
import { lockHistory } from '../../src/commit/periodStatements.ts'
import { FlushText } from '../../src/commit/statements.ts'
import { runningAt } from '../../src/rules/periods.ts'
import type { CounterRow } from '../../src/rules/rows.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { rowsRead } from '../support/database/rowsRead.ts'
import { PLAIN } from '../support/model/plain.ts'

describe('the history rows of a flush', () => {
  it('finds the history rows of a thousand counters by their whole keys, however long their history is', async () => {
    const target = await freshDatabase({ isReused: false })
    const numbers = (count: number) =>
      `(with recursive numbers as (select 1 as n union all select n + 1 from numbers where n < ${count}) select n from numbers)`
    await query(
      target,
      `insert into counter_history (counter_id, period, start, value)
     select c.n, 1, 3600 * h.n, 1 from ${numbers(1000)} c, ${numbers(40)} h`,
      'analyze table counter_history',
    )
    const definition = { ...PLAIN, periods: [{ period: 'HOUR', keepDays: null, since: null }] } as const
    const running = runningAt(definition, 20 * 3_600_000)
    const works = upTo(1000).map((id): CounterWork => {
      const cached = {
        version: 1,
        incarnation: 0,
        changedAt: 0,
        definition,
        salt: undefined,
        forgottenSecond: 0,
      }
      const row: CounterRow = { kind: 'counter', namespaceId: 1, id, ...cached }
      const path = { kind: 'locked', slot: 0 } as const
      const wanted = { hasClaim: false, wantsRevision: false, wantsPeriodValues: false, isMissed: false }
      return { row, operations: [], path, running, subjects: undefined, tokens: undefined, ...wanted }
    })
    const text = new FlushText(new Date())
    lockHistory(works, text)
    expect(await rowsRead(target, 'counter_history', text.statements)).toBeLessThan(3000)
  })
})
