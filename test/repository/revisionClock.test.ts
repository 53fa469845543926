// @module-tag slow
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { migrate } from '../../src/repository/migrate.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { filledUp, freshDatabase, query } from '../support/database/database.ts'
import { privateServer } from '../support/database/privateServer.ts'
import { counter, group, MICROSECONDS_A_DAY, revisionOf, withRevision } from '../support/model/revisions.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

type Nth = ReturnType<typeof openTestNth>

const slots = { namespace: 'n', name: 'slots' }
const sequence = { namespace: 'n', name: 's' }
const otherGroup = { ...group, group: 'other' }
const empty = { ...group, sequence: 'empty' }

/** A server of its own. What `init_connect` sets is not for administrators, so Nth is another user. */
async function server() {
  const directory = await temporaryDirectory()
  const { target: root } = await privateServer(directory)
  await query(root, 'create user app@localhost', `grant all on ${root.database}.* to app@localhost`)
  const app = { ...root, user: 'app' }
  await migrate(app)
  /** For sessions that begin from now on. */
  const putClockBack = (seconds: number) =>
    query(root, `set global init_connect = 'set timestamp = unix_timestamp(sysdate(6)) - ${seconds}'`)
  return { directory, root, app, putClockBack }
}

interface State {
  revision: number
  /** Whether it has a value or a number. */
  isUsed: boolean
}

/** States of a counter and of a sequence group, as they are read and as changes return them. */
async function read({ counters }: Nth, key = counter): Promise<State> {
  const { revision, createdAt } = await counters.read(key)
  return { revision, isUsed: createdAt !== null }
}

async function add({ counters }: Nth, key = counter): Promise<State> {
  return { revision: revisionOf(await counters.incrementBy(key, 1, withRevision)), isUsed: true }
}

async function remove({ counters }: Nth, key = counter): Promise<State> {
  return { revision: revisionOf(await counters.delete(key, withRevision)), isUsed: false }
}

async function readGroup({ sequences }: Nth, key = group): Promise<State> {
  const { revision, lastValue } = await sequences.readSequenceGroup(key)
  return { revision, isUsed: lastValue !== null }
}

async function issue({ sequences }: Nth): Promise<State> {
  return { revision: revisionOf((await sequences.next(group, 1, withRevision)).issued), isUsed: true }
}

/** Expects that no state has a lower revision than one before, and that those of different states differ. */
function expectRising(...states: State[]): void {
  for (const [index, { revision, isUsed }] of states.entries()) {
    const before = states[index - 1]
    if (!before) continue
    const least = before.revision + (isUsed || before.isUsed ? 1 : 0)
    expect.soft(revision, `${index} of ${JSON.stringify(states)}`).toBeGreaterThanOrEqual(least)
  }
}

it.each([
  ['5 seconds', 5],
  ['two days', 172_800],
])(
  'revision: does not fall where the clock of the database is put back by %s',
  { tags: 'quick' },
  async (_, seconds) => {
    const { app, putClockBack } = await server()
    const before = openTestNth(app)
    const [unwritten, unissued] = [await read(before), await readGroup(before)]
    const gone = { ...counter, name: 'gone' }
    const [counted, issued] = [await add(before, gone), await issue(before)]
    await before.counters.define(slots, { slots: 3 })
    const inSlots = [await add(before, slots), await add(before, slots), await add(before, slots)]
    await before.sequences.define(sequence, { step: 2 })
    await before.sequences.define(sequence, { step: 3 })
    for (const step of [2, 3]) await before.sequences.define({ ...sequence, name: 'empty' }, { step })
    const inEmpty = await readGroup(before, empty)
    const [defined, other] = [await readGroup(before), await readGroup(before, otherGroup)]

    await putClockBack(seconds)
    const after = openTestNth(app)
    await after.sequences.delete({ ...sequence, name: 'empty' })
    expectRising(inEmpty, await readGroup(after, empty))
    // What had no row, and is created now.
    expectRising(unwritten, await read(after), await add(after))
    // What was changed before, and is deleted and used again.
    for (const states of [[counted], inSlots]) {
      const key = states === inSlots ? slots : gone
      expectRising(...states, await remove(after, key), await read(after, key), await add(after, key))
    }
    await after.sequences.delete(sequence)
    expectRising(unissued, issued, defined, await readGroup(after), await issue(after))
    expectRising(other, await readGroup(after, otherGroup))
    // What was created now, and is deleted and used again.
    expectRising(await add(after), await remove(after), await read(after), await add(after))
    const again = await issue(after)
    await after.sequences.delete(sequence)
    expectRising(again, await readGroup(after), await issue(after))
  },
)

/** Ways to use a name, to read it, and to delete another one whose revision is far ahead. */
const KINDS = {
  counters: {
    use: (nth: Nth, name: string) => add(nth, { ...counter, name }),
    see: (nth: Nth, name: string) => read(nth, { ...counter, name }),
    useGone: (nth: Nth) => add(nth, { ...counter, name: 'gone' }),
    ahead: `update counter_value v
      join counter c on c.id = v.counter_id
       set v.revision = v.revision + ${MICROSECONDS_A_DAY}
     where c.name = 'gone'`,
    deleteGone: ({ counters }: Nth) => counters.delete({ ...counter, name: 'gone' }),
  },
  'sequence groups': {
    use: ({ sequences }: Nth, name: string) => sequences.next({ ...group, group: name }, 1),
    see: (nth: Nth, name: string) => readGroup(nth, { ...group, group: name }),
    useGone: ({ sequences }: Nth) => sequences.next({ ...group, sequence: 'gone' }, 1),
    ahead: `update sequence_group g
      join sequence s on s.id = g.sequence_id
       set g.revision = g.revision + ${MICROSECONDS_A_DAY}
     where s.name = 'gone'`,
    deleteGone: ({ sequences }: Nth) => sequences.delete({ ...sequence, name: 'gone' }),
  },
}

it.each(Object.entries(KINDS))(
  'revision: begins for %s above what a deletion shows meanwhile, however far that is ahead',
  { tags: 'quick' },
  async (_, kind) => {
    const target = await freshDatabase()
    const [writer, reader, deleter] = [openTestNth(target), openTestNth(target), openTestNth(target)]
    let isDone = false
    async function raiseMark() {
      while (!isDone) {
        await kind.useGone(deleter)
        await query(target, kind.ahead)
        await kind.deleteGone(deleter)
      }
    }
    async function watch(name: string) {
      const seen: State[] = []
      while (!seen.at(-1)?.isUsed) seen.push(await kind.see(reader, name))
      return seen.map(({ revision }) => revision)
    }
    const raising = raiseMark()
    for (const index of upTo(60)) {
      const [revisions] = await Promise.all([watch(`c${index}`), kind.use(writer, `c${index}`)])
      expect(revisions).toEqual(sorted(revisions))
    }
    isDone = true
    await raising
  },
)

it('revision: its mark is locked last, so creations and deletions do not deadlock on it', async () => {
  const { directory, root, app } = await server()
  await query(root, 'set global innodb_print_all_deadlocks = 1')
  const processes = [openTestNth(app), openTestNth(app)]
  const names = upTo(12).map((index) => `c${index}`)
  const cart = names.map((name) => ({ name, delta: 1 }))
  await Promise.all(
    upTo(24).map(async (caller) => {
      // There are two.
      const { counters, sequences } = processes[caller % 2] as Nth
      for (const round of upTo(20)) {
        const key = { namespace: `n${round % 3}`, name: `c${(caller * 5 + round) % 12}` }
        const numbered = { ...group, sequence: `s${(caller + round) % 4}`, group: key.name }
        await Promise.all([
          counters.incrementBy(key, 1),
          counters.incrementMany('n0', cart),
          sequences.next(numbered, 1),
        ])
        await Promise.all([counters.delete(key), sequences.delete({ ...sequence, name: `s${caller % 4}` })])
      }
    }),
  )
  const deadlocks = (await readFile(join(directory, 'server.log'), 'utf8')).split('deadlock detected')
  // Creations of the same names deadlock among themselves, and are repeated.
  expect(deadlocks.filter((text) => text.includes('revision_mark'))).toEqual([])
})

it('deleteSequence: deletes a sequence without reading its groups', async () => {
  const { root, app } = await server()
  const nth = openTestNth(app)
  await nth.sequences.next(group, 1)
  await query(
    root,
    ...filledUp(10_000),
    "insert into sequence_group (sequence_id, name, revision) select 1, concat('g', n), n from filled",
    'update sequence_group set revision = revision + 1e15 where name = "g77"',
  )
  const rowsRead = async () => {
    const counts = await query(root, "show global status like 'Handler_read%'")
    return counts.reduce((sum, { Value }) => sum + Number(Value), 0)
  }
  const before = await rowsRead()
  await nth.sequences.delete(sequence)
  expect((await rowsRead()) - before).toBeLessThan(1000)
  expect((await readGroup(nth)).revision).toBeGreaterThan(1e15 + 77)
})
