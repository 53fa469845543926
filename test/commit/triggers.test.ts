import { expect, it } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { periodTotals } from '../support/database/totals.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

it.each(['before', 'after'])(
  'issues the right numbers on tables with a trigger %s each change',
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
    // Room for 1 more: if an hour begins meanwhile, its total is larger than the value.
    const most = Number.MAX_SAFE_INTEGER - 1
    let previousValue = 0
    for (const delta of [1, 41, -42, -1, 0, 1, most]) {
      const value = previousValue + delta
      expect((await ask(by, { delta })).incrementBy).toEqual({ value, previousValue })
      previousValue = value
    }
    expect(await refusal(by, { delta: 2 })).toEqual({ code: 'OUT_OF_RANGE', value: most })
    expect((await ask('mutation { reset(name: "c", to: -5) { previousValue } }')).reset.previousValue).toBe(
      most,
    )
    expect((await ask(by, { delta: 0 })).incrementBy.value).toBe(-5)
    const numbers = await inParallel(10, 200, async () => {
      const { nextInSequence } = await ask('mutation { nextInSequence(name: "s", group: "g") { value } }')
      return nextInSequence.value as number
    })
    expect(sorted(numbers)).toEqual(upTo(200))
    expect(await query(target, 'select count(*) > 20 as written from audit')).toEqual([{ written: 1 }])
  },
)

it('answers UNAVAILABLE where a trigger refuses, without its words, and goes on with the others', async () => {
  const { ask, send, faults, target } = await startService()
  await ask('mutation { a: increment(name: "bad") { value } b: increment(name: "good") { value } }')
  const [bad] = await query(target, "select id from counter where name = 'bad'")
  await query(
    target,
    `create trigger refuse before update on counter_value for each row
     if new.counter_id = ${bad?.id} then signal sqlstate '45000' set message_text = 'secret'; end if`,
  )
  const answers = await Promise.all(
    upTo(100).map((index) => send(`mutation { increment(name: "${index % 2 ? 'good' : 'bad'}") { value } }`)),
  )
  const refused = answers.filter(({ errors }) => errors)
  expect(refused).toHaveLength(50)
  for (const { data, errors } of refused) {
    expect(data).toEqual({ increment: null })
    expect(errors).toEqual([
      {
        message: 'The database refuses this change; nothing was done.',
        locations: expect.anything(),
        path: ['increment'],
        extensions: { code: 'UNAVAILABLE', retryAfterMs: 1000, retryable: true },
      },
    ])
  }
  const values = answers.filter(({ errors }) => !errors).map(({ data }) => data.increment.value)
  expect(sorted(values)).toEqual(upTo(51).slice(1))
  expect(faults).not.toEqual([])
  for (const fault of faults) expect(fault).toMatchObject({ message: 'secret' })
  await query(target, 'drop trigger refuse')
  expect((await ask('mutation { increment(name: "bad") { value } }')).increment.value).toBe(2)
})

it.each([
  "signal sqlstate '45000' set message_text = 'secret'",
  // Its error is that of Nth's own conditions.
  'set @refused = (select 1 union select 2)',
])(
  'does not call the database unavailable where a trigger refuses one of several counters by %s',
  async (refuses) => {
    const { send, warnings, target } = await startService()
    const names = ['a', 'b', 'bad', 'c']
    const increment = (name: string) => send(`mutation { increment(name: "${name}") { value } }`)
    await Promise.all(names.map(increment))
    const [bad] = await query(target, "select id from counter where name = 'bad'")
    await query(
      target,
      `create trigger refuse before update on counter_value for each row
     if new.counter_id = ${bad?.id} then ${refuses}; end if`,
    )
    for (const time of upTo(5)) {
      const answers = await Promise.all(names.map(increment))
      expect(answers.map(({ data }) => data.increment?.value)).toEqual([
        1 + time,
        1 + time,
        undefined,
        1 + time,
      ])
    }
    expect(warnings).toEqual([])
  },
)

it('goes on with the others where a trigger takes the total away that a period ended with', async () => {
  const { ask, send, target } = await startService()
  await ask('mutation { a: increment(name: "bad") { value } b: increment(name: "good") { value } }')
  const [bad] = await query(target, "select id from counter where name = 'bad'")
  await query(
    target,
    `create trigger take before insert on counter_history for each row
     if new.counter_id = ${bad?.id} then set new.value = null; end if`,
    'update counter_value set hour_start = hour_start - 3600',
  )
  const answers = await Promise.all(
    upTo(40).map((index) => send(`mutation { increment(name: "${index % 2 ? 'good' : 'bad'}") { value } }`)),
  )
  const codes = answers.map(({ errors }) => errors?.[0]?.extensions.code)
  expect(codes).toEqual(upTo(40).map((index) => (index % 2 ? undefined : 'UNAVAILABLE')))
  const values = answers.filter(({ errors }) => !errors).map(({ data }) => data.increment.value)
  expect(sorted(values)).toEqual(upTo(21).slice(1))
  const totals = (await periodTotals(target)).filter(({ id }) => id === bad?.id)
  expect(totals.map(({ value }) => value)).toEqual([1, 1, 1])
})

it('refuses only those changes of a counter that a trigger refuses', async () => {
  const { ask, send, target } = await startService()
  await ask('mutation { increment(name: "c") { value } }')
  await query(
    target,
    `create trigger refuse before update on counter_value for each row
     if new.value - old.value >= 1000 then signal sqlstate '45000' set message_text = 'secret'; end if`,
  )
  const answers = await Promise.all(
    upTo(30).map((index) =>
      send('mutation($delta: SafeInt!) { incrementBy(name: "c", delta: $delta) { value } }', {
        delta: index % 3 === 0 ? 1000 : 1,
      }),
    ),
  )
  const values = answers.flatMap(({ data }) => (data.incrementBy ? [data.incrementBy.value] : []))
  expect(sorted(values)).toEqual(upTo(21).slice(1))
  const codes = answers.flatMap(({ errors }) => errors ?? []).map(({ extensions }) => extensions.code)
  expect(codes).toEqual(Array(10).fill('UNAVAILABLE'))
})

it('refuses a cart that names a counter twice at once', async () => {
  const { ask, send, target } = await startService()
  await ask('mutation { increment(name: "c") { value } }')
  await query(
    target,
    `create trigger refuse before update on counter_value for each row signal sqlstate '45000' set message_text = 'secret'`,
  )
  const cart = 'mutation { incrementMany(changes: [{ name: "c" }, { name: "c", delta: 2 }]) { value } }'
  const { errors = [] } = await send(cart)
  expect(errors.map(({ message }) => message)).toEqual([
    'The database refuses this change; nothing was done.',
  ])
})

it.each([
  ['without keys', false],
  ['that each have a key', true],
])('finds the counter that a trigger refuses once, among calls %s', async (_, haveKeys) => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  const names = ['bad', 'good']
  for (const name of names) await counters.incrementBy({ namespace: 'n', name }, 1)
  const [bad] = await query(target, "select id from counter where name = 'bad'")
  await query(
    target,
    `create trigger refuse before update on counter_value for each row
     if new.counter_id = ${bad?.id} then signal sqlstate '45000' set message_text = 'secret'; end if`,
  )
  const statements = collectStatements('counter_value')
  const count = (name: string, index: number) => {
    const claim = haveKeys ? claimOf('n', `key ${index} of ${name}`, []) : undefined
    const counting = counters.incrementBy({ namespace: 'n', name }, 1, { claim })
    return counting.then(({ value }) => value, String)
  }
  const answers = await Promise.all(upTo(64).flatMap((index) => names.map((name) => count(name, index))))
  const values = answers.filter((answer) => typeof answer === 'number')
  expect(sorted(values)).toEqual(upTo(65).slice(1))
  const refusals = new Set(answers.filter((answer) => typeof answer === 'string'))
  expect([...refusals]).toEqual([
    expect.stringContaining('The database refuses this change; nothing was done.'),
  ])
  // Those of the quarantine try the locks first.
  const attempts = statements.filter((text) => /^(start transaction|update fence)/.test(text))
  expect(attempts.filter((text) => !text.includes('skip locked')).length).toBeLessThan(20)
})

it('keeps its connection where a trigger refuses the change of one counter', async () => {
  const { ask, send, target } = await startService()
  const by = (delta: number) => send(`mutation { incrementBy(name: "c", delta: ${delta}) { value } }`)
  await ask('mutation { increment(name: "c") { value } }')
  await query(
    target,
    `create trigger refuse before update on counter_value for each row
     if new.value - old.value >= 1000 then signal sqlstate '45000' set message_text = 'secret'; end if`,
  )
  const changeAndFail = async () => {
    expect((await by(1)).errors).toBeUndefined()
    expect((await by(1000)).errors).toHaveLength(1)
  }
  // The quarantine connects when it is used first.
  await changeAndFail()
  const reconnections = collectStatements('set epoch')
  for (const _ of upTo(3)) await changeAndFail()
  expect(reconnections).toEqual([])
})
