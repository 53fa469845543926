import { ER, hasErrorNumber } from '../connections/errors.ts'
import { firstRow, rowsOf, type Session } from '../connections/session.ts'
import { integer } from '../literals.ts'
import {
  ADD,
  added,
  causeOf,
  FAIL,
  failingIndex,
  insertIdIn,
  read,
  repeated,
  set,
  TABLE,
  valueIn,
} from './trial.ts'

/** What the write path assumes of a server, or of what stands between: a proxy, a distributed engine. */
export interface Assumption {
  /** What is assumed, as a statement. */
  text: string
  /** What Nth would do wrong without. */
  otherwise: string
  level: 'warning' | 'error'
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

export const ASSUMPTIONS: readonly Assumption[] = [
  {
    text: 'the answer to an update has the value of last_insert_id(expression)',
    otherwise: 'callers would get wrong numbers',
    level: 'error',
    async holds({ sessions: [one] }) {
      const [first, second] = await one.send([ADD, set(2, 'last_insert_id(value) + 5'), 'commit'])
      const [third] = await one.send([ADD])
      await one.send(['commit'])
      const ids = [first, second, third].map((answer) => insertIdIn(answer))
      return ids.join() === '10,10,11'
    },
  },
  {
    text: 'a text of several statements ends at the first that fails',
    otherwise: 'a flush would be committed in part',
    level: 'error',
    async holds({ sessions: [one] }) {
      const index = await failingIndex(one.send(['start transaction', ADD, FAIL, ADD, 'commit']))
      await one.send(['rollback'])
      return index === 2 && (await valueIn(one)) === 10
    },
  },
  {
    text: 'a transaction is rolled back as a whole, and when its connection ends',
    otherwise: 'numbers would be skipped, or issued twice',
    level: 'error',
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
    otherwise: 'a flush would be applied in part',
    level: 'error',
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
    otherwise: 'two callers would get the same number',
    level: 'error',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', ADD])
      const waiting = added(other)
      await one.send(['do sleep(0.2)', 'commit'])
      return (await waiting) === 11
    },
  },
  {
    text: 'select … for update does, too',
    otherwise: 'limits and sequences would be wrong',
    level: 'error',
    async holds({ sessions: [one, other] }) {
      await one.send(['start transaction', ADD])
      const waiting = repeated(other, ['start transaction', read(1, 'for update'), 'commit'])
      await one.send(['do sleep(0.2)', 'commit'])
      return Number(firstRow<{ value: number }>((await waiting)[1])?.value) === 11
    },
  },
  {
    text: 'lock in share mode holds changes back, and no other such lock',
    otherwise: 'a number could be issued by a definition that was replaced',
    level: 'error',
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
    text: 'locked rows are skipped or refused where that is asked',
    otherwise: 'one locked row would hold up the changes of all others',
    level: 'error',
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
    otherwise: 'numbers would be lost, or issued twice',
    level: 'error',
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
    otherwise: 'answers would be older than the caller knows',
    level: 'error',
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
    otherwise: 'a request with an idempotency key would count twice',
    level: 'error',
    async holds({ sessions: [one] }) {
      const claim = `insert ignore into ${TABLE} (id, value) values (4, 0), (5, 0)`
      const answers = await one.send([claim, claim, 'commit'])
      return answers.map((answer) => Object(answer).affectedRows).join() === '1,0,0'
    },
  },
  {
    text: 'an update says how many rows it matched, changed or not',
    otherwise: 'an addition of 0 would never be answered',
    level: 'error',
    async holds({ sessions: [one] }) {
      const answers = await one.send([set(1, 'value'), set(9, 'value'), 'commit'])
      return answers.map((answer) => Object(answer).affectedRows).join() === '1,0,0'
    },
  },
  {
    text: 'an insert of several rows adds to those that exist',
    otherwise: 'totals of periods would be wrong',
    level: 'error',
    async holds({ sessions: [one] }) {
      const insert = `insert into ${TABLE} (id, value) values (4, 1), (5, 2)`
      await one.send([`${insert} on duplicate key update value = value + values(value)`, 'commit'])
      return (await valueIn(one, 4)) === 11 && (await valueIn(one, 5)) === 2
    },
  },
  {
    text: 'null is refused where a value is required',
    otherwise: 'a counter would pass its largest value',
    level: 'error',
    async holds({ sessions: [one] }) {
      const cause = await one.send([set(1, 'if(value > 0, null, 0)')]).catch(causeOf)
      await one.send(['rollback'])
      return hasErrorNumber(cause, ER.BAD_NULL_ERROR)
    },
  },
  {
    text: 'row_count() is that of the statement before',
    otherwise: 'a flush to a distant database would fail',
    level: 'error',
    async holds({ sessions: [one] }) {
      const both = `update ${TABLE} set value = value + 1 where id in (1, 2)`
      await one.send(['start transaction', both, set(3, 'row_count()'), 'commit'])
      return (await valueIn(one, 3)) === 2
    },
  },
  {
    text: 'a session keeps its settings, and its server',
    otherwise: 'settings would get lost between statements',
    level: 'error',
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
    otherwise: 'rows that a frozen Nth has locked would stay so for hours',
    level: 'warning',
    async holds({ sessions: [one], idle }) {
      await idle.send(['start transaction', ADD])
      return (await added(one)) === 10
    },
  },
  {
    text: 'a connection can be ended from another',
    otherwise: 'rows of a connection that was cut would stay locked for seconds',
    level: 'warning',
    async holds({ sessions: [one], idle }) {
      await one.send([`kill ${integer(idle.identity.connectionId)}`, 'commit'])
      const outcome = await idle.send(['do 0']).catch((error: unknown) => error)
      return outcome instanceof Error
    },
  },
]
