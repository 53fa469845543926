import { describe, expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { claimOf } from '../../src/rules/idempotency.ts'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { periodTotals } from '../support/database/totals.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

it.each(['before', 'after'])(
  'a trigger: lets callers have the right numbers, %s each change',
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
    const numbers = await inParallel(10, 60, async () => {
      const { nextInSequence } = await ask('mutation { nextInSequence(name: "s", group: "g") { value } }')
      return nextInSequence.value as number
    })
    expect(sorted(numbers)).toEqual(upTo(60))
    expect(await query(target, 'select count(*) > 10 as written from audit')).toEqual([{ written: 1 }])
  },
)

const SIGNAL = "signal sqlstate '45000' set message_text = 'secret'"
const REFUSAL = 'The database refuses this change; nothing was done.'
const LARGE = 'new.value - old.value >= 1000'

/** Has the database do something instead of a change of a counter for which a condition holds. */
async function refuseWhere(
  target: Target,
  condition: string,
  does = SIGNAL,
  event = 'update on counter_value',
) {
  await query(
    target,
    `create trigger refuse before ${event} for each row if ${condition} then ${does}; end if`,
  )
}

/** A service with several counters, of which the database refuses to change the one named `bad`. */
async function startRefusing(names: readonly string[], does = SIGNAL, event?: string) {
  const service = await startService()
  const increment = (name: string) => service.send(`mutation { increment(name: "${name}") { value } }`)
  await Promise.all(names.map(increment))
  const [bad] = await query(service.target, "select id from counter where name = 'bad'")
  await refuseWhere(service.target, `new.counter_id = ${bad?.id}`, does, event)
  return { ...service, increment, bad }
}

const by = (delta: number) => `mutation { incrementBy(name: "c", delta: ${delta}) { value } }`

describe('a trigger that refuses', () => {
  it('has callers get UNAVAILABLE, without its words, and others go on', async () => {
    const { ask, increment, faults, target } = await startRefusing(['bad', 'good'])
    const answers = await Promise.all(upTo(100).map((index) => increment(index % 2 ? 'good' : 'bad')))
    const refused = answers.filter(({ errors }) => errors)
    expect(refused).toHaveLength(50)
    for (const { data, errors } of refused) {
      expect(data).toEqual({ increment: null })
      expect(errors).toEqual([
        {
          message: REFUSAL,
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
    SIGNAL,
    // Its error is that of Nth's own conditions.
    'set @refused = (select 1 union select 2)',
  ])('does not have the database called unavailable: %s', async (does) => {
    const names = ['a', 'b', 'bad', 'c']
    const { increment, warnings } = await startRefusing(names, does)
    for (const time of upTo(5)) {
      const answers = await Promise.all(names.map(increment))
      const values = answers.map(({ data }) => data.increment?.value)
      expect(values).toEqual([1 + time, 1 + time, undefined, 1 + time])
    }
    expect(warnings).toEqual([])
  })

  it('has others go on where it takes the total away that a period ended with', async () => {
    const { increment, target, bad } = await startRefusing(
      ['bad', 'good'],
      'set new.value = null',
      'insert on counter_history',
    )
    await query(target, 'update counter_value set hour_start = hour_start - 3600')
    const answers = await Promise.all(upTo(40).map((index) => increment(index % 2 ? 'good' : 'bad')))
    const codes = answers.map(({ errors }) => errors?.[0]?.extensions.code)
    expect(codes).toEqual(upTo(40).map((index) => (index % 2 ? undefined : 'UNAVAILABLE')))
    const values = answers.filter(({ errors }) => !errors).map(({ data }) => data.increment.value)
    expect(sorted(values)).toEqual(upTo(21).slice(1))
    const totals = (await periodTotals(target)).filter(({ id }) => id === bad?.id)
    expect(totals.map(({ value }) => value)).toEqual([1, 1, 1])
  })

  it('refuses only those changes of a counter, and keeps the connection', async () => {
    const { send, target } = await startService()
    await send(by(1))
    await refuseWhere(target, LARGE)
    const reconnections = collectStatements('set epoch')
    // The first one in a trip of its own.
    expect((await send(by(1000))).errors).toHaveLength(1)
    const answers = await Promise.all(upTo(30).map((index) => send(by(index % 3 === 0 ? 1000 : 1))))
    const values = answers.flatMap(({ data }) => (data.incrementBy ? [data.incrementBy.value] : []))
    expect(sorted(values)).toEqual(upTo(21).slice(1))
    const codes = answers.flatMap(({ errors }) => errors ?? []).map(({ extensions }) => extensions.code)
    expect(codes).toEqual(Array(10).fill('UNAVAILABLE'))
    for (const _ of upTo(3)) {
      expect((await send(by(1))).errors).toBeUndefined()
      expect((await send(by(1000))).errors).toHaveLength(1)
    }
    expect(reconnections).toEqual([])
  })

  it('refuses a cart that names a counter twice at once', async () => {
    const { send, target } = await startService()
    await send(by(1))
    await refuseWhere(target, 'true')
    const cart = 'mutation { incrementMany(changes: [{ name: "c" }, { name: "c", delta: 2 }]) { value } }'
    const { errors = [] } = await send(cart)
    expect(errors.map(({ message }) => message)).toEqual([REFUSAL])
  })

  it.each([
    ['without keys', false],
    ['that each have a key', true],
  ])('is met a few times only, among calls %s', async (_, haveKeys) => {
    const target = await freshDatabase()
    const { counters } = openTestNth(target)
    const names = ['bad', 'good']
    for (const name of names) await counters.incrementBy({ namespace: 'n', name }, 1)
    await refuseWhere(target, "new.counter_id = (select id from counter where name = 'bad')")
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
    expect([...refusals]).toEqual([expect.stringContaining(REFUSAL)])
    // Those of the quarantine try the locks first.
    const attempts = statements.filter((text) => /^(start transaction|update fence)/.test(text))
    expect(attempts.filter((text) => !text.includes('skip locked')).length).toBeLessThan(20)
  })
})
