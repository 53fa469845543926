// @module-tag slow
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { wholeState } from '../support/database/wholeState.ts'
import { fillWithAnything, NAMESPACES } from '../support/model/anyState.ts'
import { createRandom } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'
import { entriesIn, exported } from '../support/server/transfer.ts'

const key = { namespace: 'n', name: 'c' }

/** Each of these makes some statement of Nth's do something else, or fail. */
const HOSTILE = [
  "sql_mode = 'ANSI,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'",
  "time_zone = '+13:00'",
  'autocommit = 0',
  'completion_type = 1',
  'sql_select_limit = 1',
  // It sets `sql_big_selects`, too.
  'max_join_size = 1',
  'sql_safe_updates = 1',
  'sql_auto_is_null = 1',
  'unique_checks = 0',
  'max_sort_length = 64',
  'sort_buffer_size = 4096',
]

const TRANSACTION = 'transaction isolation level serializable, read only'

const FOREVER: [how: string, statements: string[]][] = [
  ['by its defaults', [...HOSTILE, TRANSACTION].map((setting) => `set global ${setting}`)],
  [
    'for each new connection',
    [
      `set global init_connect = "${[...HOSTILE, TRANSACTION, 'character_set_results = null'].map((setting) => `set session ${setting}`).join('; ')}"`,
    ],
  ],
]

const NOT_COPIED = `select 1 from counter c left join leaderboard r on r.counter_id = c.id
  where (select if(min(v.created_at) is null, 0, sum(v.revision)) from counter_value v where v.counter_id = c.id)
        > coalesce(r.revision, 0)`

/** A server of its own with the tables. What `init_connect` sets is not for administrators, so Nth is another user. */
async function server(): Promise<{ root: Target; app: Target }> {
  const { target: root } = await privateServer(await temporaryDirectory())
  await query(root, 'create user app@localhost', `grant all on ${root.database}.* to app@localhost`)
  return { root, app: { ...root, user: 'app' } }
}

it.each(FOREVER)(
  'session settings: counts, lists and deletes right on a server that has everything else %s',
  async (_, hostile) => {
    const { root, app } = await server()
    await query(root, ...hostile)
    await migrate(app)
    const first = openTestNth(app)
    const names = ['a', 'b', 'c', 'd'].map((name) => 'x'.repeat(100) + name)
    const changes = names.map((name, index) => ({ name, delta: index + 1 }))
    await first.counters.incrementMany('n', changes)
    await first.counters.define(key, { maxValue: 9, slots: 1 })
    await Promise.all(names.map((name) => first.counters.incrementBy({ ...key, name }, 10)))
    await first.counters.incrementBy({ ...key, name: 'gone' }, 1)
    await first.counters.delete({ ...key, name: 'gone' })
    await first.sequences.define(key, { step: 2 })
    expect(
      (await first.sequences.next({ namespace: 'n', sequence: 'c', group: '' }, 3)).issued,
    ).toMatchObject({ value: 1 })
    await first.namespaces.define('n', { timeZone: 'Europe/Berlin' })
    await first.counters.resetAll('n', 'xx', 20)

    const { counters, sequences, namespaces, faults } = openTestNth(app)
    const states = await counters.readMany([...names, 'gone', 'c'].map((name) => ({ namespace: 'n', name })))
    expect(states.map(({ value }) => value)).toEqual([20, 20, 20, 20, 0, 0])
    const page = { limit: 10, fromEnd: false, prefix: '' }
    expect((await counters.list('n', page)).items.map(({ name }) => name)).toEqual(['c', ...names])
    expect(states[4]).toMatchObject({ createdAt: null })
    expect(await counters.read(key)).toMatchObject({ definition: { maxValue: 9 } })
    expect((await sequences.read(key)).definition?.step).toBe(2)
    expect((await namespaces.read('n')).timeZone).toBe('Europe/Berlin')
    // Whoever reads sees what is there now, not what was when they read first.
    await first.counters.incrementBy(key, 6)
    expect((await counters.read(key)).value).toBe(6)
    expect([faults, first.faults]).toEqual([[], []])
    const open = () =>
      query(root, 'set session sql_big_selects = 1', 'select trx_id from information_schema.innodb_trx')
    await expect.poll(open).toEqual([])
  },
)

it.each(FOREVER)(
  'session settings: reads and exports the same from a server that has everything else %s',
  async (_, hostile) => {
    const { root, app } = await server()
    await migrate(root)
    await fillWithAnything(root, createRandom(1))
    // What sorts counters by value follows their changes: here at the latest, as a process that ends waits a second only.
    const { leaderboard } = openTestNth(root)
    for (const namespace of NAMESPACES)
      await leaderboard.list(namespace, { order: 'VALUE_DESC', limit: 1, fromEnd: false })
    await expect.poll(() => query(root, NOT_COPIED)).toEqual([])
    const read = async () => [
      await wholeState(await startService({ target: app }), NAMESPACES),
      entriesIn(await exported(app)),
    ]
    const before = await read()
    await query(root, ...hostile)
    expect(await read()).toEqual(before)
  },
)
