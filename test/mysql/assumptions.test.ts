import { expect, it } from 'vitest'
import { ER, hasErrorNumber } from '../../src/mysql/errors.ts'
import { Hosts } from '../../src/mysql/hosts.ts'
import {
  type Answer,
  FailedStatement,
  firstRow,
  openSession,
  rowsOf,
  type Session,
} from '../../src/mysql/session.ts'
import type { Target } from '../../src/mysql/settings.ts'
import { integer } from '../../src/mysql/sql.ts'
import { freshDatabase } from '../support/database/database.ts'

/** What the write path assumes of a server, or of what stands between: a proxy, a distributed engine. */
interface Assumption {
  /** What is assumed, as a statement. */
  text: string
  holds(trial: Trial): Promise<boolean>
}

interface Trial {
  /** Sessions as those of writers. */
  sessions: [Session, Session]
  /** One that the server ends, with its locks, when it was idle for a second. */
  idle: Session
}

/** Changes that two sessions make at once, each. */
const CHANGES = 50
/** How often a session looks whether it has its state, or sees what another one has committed. */
const LOOKS = 50

const ASSUMPTIONS: readonly Assumption[] = [
  {
    text: 'the answer to an update has the value of last_insert_id(expression)',
    async holds({ sessions: [one] }) {
      const [first, second] = await one.send([ADD, set(2, 'last_insert_id(value) + 5'), 'commit'])
      const [third] = await one.send([ADD])
      await one.send(['commit'])
      const ids = [first, second, third].map((answer) => insertIdIn(answer))
      return ids.join() === '10,10,11'
    },
  },
  {
    text: 'an update of two rows keeps in one what the other was, or changes none',
    async holds({ sessions: [one] }) {
      const both = `update ${TABLE} as kept straight_join ${TABLE} as counted
        set kept.value = counted.value, counted.value = last_insert_id(counted.value) + 5
        where kept.id = 2 and counted.id = `
      const [, changed, none] = await one.send([set(1, '20'), `${both}1`, `${both}9`, 'commit'])
      const values = [insertIdIn(changed), await valueIn(one), await valueIn(one, 2)]
      return values.join() === '20,25,20' && Object(none).affectedRows === 0
    },
  },
  {
    text: 'a text of several statements ends at the first that fails',
    async holds({ sessions: [one] }) {
      const index = await failingIndex(one.send(['start transaction', ADD, FAIL, ADD, 'commit']))
      await one.send(['rollback'])
      return index === 2 && (await valueIn(one)) === 10
    },
  },
  {
    text: 'a transaction is rolled back as a whole, and when its connection ends',
    async holds({ sessions: [one, other], idle }) {
      await one.send(['start transaction', ADD, set(2, '99'), 'rollback'])
      if ((await valueIn(other)) !== 10 || (await valueIn(other, 2)) !== 10) return false
      await idle.send(['start transaction', ADD])
      idle.drop()
      return (await added(other)) === 10
    },
  },
  {
    text: 'of two transactions that wait for each other, one is rolled back as a whole, the other is not',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', set(1, '11')])
      await other.send(['start transaction', set(2, '21')])
      const waiting = one.send([set(2, '12'), 'commit']).catch(causeOf)
      const crossing = other.send([set(1, '22'), 'commit']).catch(causeOf)
      const failures = (await Promise.all([waiting, crossing])).filter((answer) => answer instanceof Error)
      await Promise.all([one.send(['rollback']), other.send(['rollback'])])
      const values = `${await valueIn(one)},${await valueIn(one, 2)}`
      return failures.length === 1 && ['11,12', '22,21'].includes(values)
    },
  },
  {
    text: 'a change waits for the transaction that changed its row, and continues from its result',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', ADD])
      const waiting = added(other)
      await one.send(['do sleep(0.2)', 'commit'])
      return (await waiting) === 11
    },
  },
  {
    text: 'select … for update does, too',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', ADD])
      const waiting = repeated(other, ['start transaction', read(1, 'for update'), 'commit'])
      await one.send(['do sleep(0.2)', 'commit'])
      return Number(firstRow<{ value: number }>((await waiting)[1])?.value) === 11
    },
  },
  {
    text: 'lock in share mode holds changes back, and no other such lock',
    async holds({ sessions: [one, other] }) {
      const share = read(1, 'lock in share mode')
      await one.send(['start transaction', share])
      await other.send(['start transaction', share, 'rollback'])
      const refused = await other.send(['start transaction', read(1, 'for update nowait')]).catch(causeOf)
      await Promise.all([one.send(['rollback']), other.send(['rollback'])])
      return hasErrorNumber(refused, ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT)
    },
  },
  {
    text: 'locked rows are skipped or refused where a statement requests it',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', read(1, 'for update')])
      const skipping = `select id from ${TABLE} where id in (1, 2) for update skip locked`
      const [, found] = await other.send(['start transaction', skipping, 'rollback'])
      const refused = await other.send([read(1, 'for update nowait')]).catch(causeOf)
      await Promise.all([one.send(['rollback']), other.send(['rollback'])])
      const isSkipped =
        rowsOf<{ id: number }>(found)
          .map(({ id }) => id)
          .join() === '2'
      return isSkipped && hasErrorNumber(refused, ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT)
    },
  },
  {
    text: 'changes of several connections at once are each counted once',
    async holds({ sessions }) {
      const numbers = await Promise.all(
        sessions.map(async (session) => {
          const own: unknown[] = []
          for (let change = 0; change < CHANGES; change++) own.push(await added(session))
          return own
        }),
      )
      const all = new Set(numbers.flat())
      return all.size === 2 * CHANGES && (await valueIn(sessions[0])) === 10 + 2 * CHANGES
    },
  },
  {
    text: 'what a session has committed, every other one sees',
    async holds({ sessions: [one, other] }) {
      for (let look = 1; look <= LOOKS; look++) {
        await added(one)
        if ((await valueIn(other)) !== 10 + look) return false
      }
      return true
    },
  },
  {
    text: 'an insert that ignores existing keys says how many were new',
    async holds({ sessions: [one] }) {
      const claim = `insert ignore into ${TABLE} (id, value) values (4, 0), (5, 0)`
      const answers = await one.send([claim, claim, 'commit'])
      return answers.map((answer) => Object(answer).affectedRows).join() === '1,0,0'
    },
  },
  {
    text: 'an update says how many rows it matched, changed or not',
    async holds({ sessions: [one] }) {
      const answers = await one.send([set(1, 'value'), set(9, 'value'), 'commit'])
      return answers.map((answer) => Object(answer).affectedRows).join() === '1,0,0'
    },
  },
  {
    text: 'an insert of several rows adds to those that exist',
    async holds({ sessions: [one] }) {
      const insert = `insert into ${TABLE} (id, value) values (4, 1), (5, 2)`
      await one.send([`${insert} on duplicate key update value = value + values(value)`, 'commit'])
      return (await valueIn(one, 4)) === 11 && (await valueIn(one, 5)) === 2
    },
  },
  {
    text: 'null is refused where a value is required',
    async holds({ sessions: [one] }) {
      const cause = await one.send([set(1, 'if(value > 0, null, 0)')]).catch(causeOf)
      await one.send(['rollback'])
      return hasErrorNumber(cause, ER.BAD_NULL_ERROR)
    },
  },
  {
    text: 'row_count() is that of the statement before',
    async holds({ sessions: [one] }) {
      const both = `update ${TABLE} set value = value + 1 where id in (1, 2)`
      await one.send(['start transaction', both, set(3, 'row_count()'), 'commit'])
      return (await valueIn(one, 3)) === 2
    },
  },
  {
    text: 'a session keeps its settings, and its server',
    async holds({ sessions: [one] }) {
      const look = 'select @nth_check as kept, connection_id() as id, @@session.sql_mode as mode'
      await one.send(["set @nth_check = 'kept'"])
      const seen = new Set<string>()
      for (let times = 0; times < LOOKS; times++) seen.add(JSON.stringify(await one.send([look])))
      const [text = ''] = seen
      return seen.size === 1 && text.includes('"kept":"kept"') && text.includes('STRICT_ALL_TABLES')
    },
  },
  {
    text: 'a transaction that idles is ended, and its locks with it',
    async holds({ sessions: [one], idle }) {
      await idle.send(['start transaction', ADD])
      return (await added(one)) === 10
    },
  },
  {
    text: 'a connection can be ended from another',
    async holds({ sessions: [one], idle }) {
      await one.send([`kill ${integer(idle.identity.connectionId)}`, 'commit'])
      const outcome = await idle.send(['do 0']).catch((error: unknown) => error)
      return outcome instanceof Error
    },
  },
]

/** A table that exists only during a check. */
const TABLE = 'nth_check'
const CREATE = `create table ${TABLE} (id int not null, value bigint not null, primary key (id)) engine = InnoDB`
/** Its rows in each trial, each with the value 10. */
const ROWS = [1, 2, 3, 4]
const SET_UP = [
  `delete from ${TABLE}`,
  `insert into ${TABLE} (id, value) values ${ROWS.map((id) => `(${id}, 10)`).join(', ')}`,
  'commit',
]
const TIME_LIMIT_MS = 5000

/** Statements of trials: a value is set, read, incremented as a writer does it; one that fails. */
const set = (id: number, value: string) => `update ${TABLE} set value = ${value} where id = ${id}`
const read = (id: number, how = '') => `select value from ${TABLE} where id = ${id} ${how}`
const ADD = set(1, 'last_insert_id(value) + 1')
const FAIL = 'select if(0, 0, (select 1 union select 2))'

/** Adds 1 to the first row, in a transaction of its own that is repeated where a writer would. Returns the value before. */
async function added(session: Session): Promise<number> {
  const [, answer] = await repeated(session, ['start transaction', ADD, 'commit'])
  return insertIdIn(answer)
}

/** Sends a transaction until it meets no other one. */
async function repeated(session: Session, statements: readonly string[]): Promise<Answer[]> {
  const deadline = performance.now() + TIME_LIMIT_MS
  while (true) {
    try {
      return await session.send(statements)
    } catch (error) {
      const isConflict = hasErrorNumber(causeOf(error), ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
      if (!isConflict || performance.now() > deadline) throw error
      await session.send(['rollback'])
    }
  }
}

async function valueIn(session: Session, id = 1): Promise<number> {
  const [answer] = await session.send([read(id), 'commit'])
  return Number(firstRow<{ value: number }>(answer)?.value)
}

function insertIdIn(answer: Answer | undefined): number {
  return Number(Object(answer).insertId)
}

/** The index of the statement at which a text fails. */
async function failingIndex(sent: Promise<unknown>): Promise<number | undefined> {
  const error = await sent.catch((failure: unknown) => failure)
  return error instanceof FailedStatement ? error.index : undefined
}

function causeOf(error: unknown): Error {
  return (error instanceof FailedStatement ? error.cause : error) as Error
}

const IDLE_LIMIT_S = 1

/** Tries an assumption on a server, in a table of its own. */
async function holds(target: Target, assumption: Assumption): Promise<boolean> {
  const hosts = new Hosts([target])
  const host = await hosts.current()
  const open = (idleLimitS: number) => openSession(host, { timeLimitMs: TIME_LIMIT_MS, idleLimitS })
  const opened: Session[] = []
  const owner = await open(60)
  try {
    await owner.send([CREATE, 'commit'])
    await repeated(owner, SET_UP)
    const [one, other, idle] = [await open(60), await open(60), await open(IDLE_LIMIT_S)] as const
    opened.push(one, other, idle)
    return await assumption.holds({ sessions: [one, other], idle })
  } finally {
    // Not an orderly end: each may be in the middle of a transaction.
    for (const session of opened) session.drop()
    await owner.send([`drop table if exists ${TABLE}`]).catch(() => undefined)
    await owner.close()
    hosts.close()
  }
}

it.each(ASSUMPTIONS)('the engine: $text', async (assumption) => {
  expect(await holds(await freshDatabase(), assumption)).toBe(true)
})
