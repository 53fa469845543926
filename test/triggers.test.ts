import { expect, it } from 'vitest'
import { inParallel, sorted, upTo } from './support/client.ts'
import { query } from './support/database.ts'
import { startService } from './support/service.ts'

it.each(['before', 'after'])(
  'deals the right numbers on tables with a trigger %s each change',
  async (time) => {
    const { ask, refusal, target } = await startService()
    await query(
      target,
      'create table audit (id bigint not null auto_increment primary key, what varchar(20))',
      ...['counter_value', 'sequence_value'].flatMap((table) =>
        ['insert', 'update'].map(
          (event) =>
            `create trigger ${table}_${event} ${time} ${event} on ${table} for each row insert into audit (what) values ('${event}')`,
        ),
      ),
    )
    const by = 'mutation($delta: SafeInt!) { incrementBy(name: "c", delta: $delta) { value previousValue } }'
    let previousValue = 0
    for (const delta of [1, 41, -42, -1, 0, 1, Number.MAX_SAFE_INTEGER]) {
      const value = previousValue + delta
      expect((await ask(by, { delta })).incrementBy).toEqual({ value, previousValue })
      previousValue = value
    }
    expect(await refusal(by, { delta: 1 })).toEqual({ code: 'OUT_OF_RANGE', value: Number.MAX_SAFE_INTEGER })
    expect((await ask('mutation { reset(name: "c", to: -5) { previousValue } }')).reset.previousValue).toBe(
      Number.MAX_SAFE_INTEGER,
    )
    expect((await ask(by, { delta: 0 })).incrementBy.value).toBe(-5)
    const numbers = await inParallel(10, 200, async () => {
      const { nextInSequence } = await ask('mutation { nextInSequence(name: "s", group: "g") { value } }')
      return nextInSequence.value as number
    })
    expect(sorted(numbers)).toEqual(upTo(200))
    expect(await query(target, 'select count(*) > 200 as written from audit')).toEqual([{ written: 1 }])
  },
)

it('reports a trigger that refuses as our fault, without its words', async () => {
  const { post, faults, target } = await startService()
  await query(
    target,
    "create trigger refuse before update on counter_value for each row signal sqlstate '45000' set message_text = 'secret'",
  )
  const { status, body } = await post('{"query":"mutation { increment(name: \\"c\\") { value } }"}')
  const { data, errors } = body
  // It was executed.
  expect(status).toBe(200)
  expect(data).toEqual({ increment: null })
  expect(errors?.[0]?.extensions).toEqual({ code: 'INTERNAL_SERVER_ERROR' })
  expect(JSON.stringify(errors)).not.toContain('secret')
  expect(faults).toEqual([expect.objectContaining({ message: 'secret' })])
})
