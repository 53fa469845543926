import type { ResultSetHeader } from 'mysql2'
import type { Answer } from '../../src/mysql/session.ts'
import { ServerError, type ServerSession, type StoredRow } from './database.ts'

/*
 * What the simulated server understands: the statements of a flush of counters without slots and periods, and of
 * sequences without reservations and subjects, by their shape. It is no SQL: of a row it knows what decides a result.
 */

type Execute = (session: ServerSession, ...parts: string[]) => Answer | Promise<Answer>

const SUBQUERY_NO_1_ROW = 1242
const UNKNOWN_THREAD = 1094
const REFUSED_BY_TRIGGER = 1644

const LEFT = 'where id = (\\d+) and seq = (\\d+)(?: and epoch = (\\d+))?'
const BY_IDS = 'where counter_id (?:= |in \\()([\\d, ]+)\\)?'

const STATEMENTS: [shape: RegExp, execute: Execute][] = [
  [/^do 0$/, () => changed(0)],
  [/^kill (\d+)$/, (session, id = '') => kill(session, Number(id))],
  [
    /^start transaction$/,
    (session) => {
      session.isInTransaction = true
      return changed(0)
    },
  ],
  [
    /^commit$/,
    (session) => {
      session.commit()
      return changed(0)
    },
  ],
  [
    /^rollback$/,
    (session) => {
      session.rollBack()
      return changed(0)
    },
  ],

  // The fence.
  [
    /^insert into fence \(id, touched_at\) values \((\d+), utc_timestamp\(\)\)$/,
    async (session, id) => {
      await session.lock(`fence ${id}`)
      return write(session, `fence ${id}`, { seq: 0, epoch: 0, found: null })
    },
  ],
  [
    new RegExp(`^update fence set seq = (\\d+), found = null, touched_at = utc_timestamp\\(\\) ${LEFT}$`),
    async (session, next, id = '', ...left) => {
      const row = await lockLeft(session, id, left)
      return row ? write(session, `fence ${id}`, { ...row, seq: Number(next), found: null }) : changed(0)
    },
  ],
  [
    /^update fence set epoch = last_insert_id\(epoch( \+ 1)?\) where id = (\d+)$/,
    async (session, raise, id) => {
      await session.lock(`fence ${id}`)
      const row = session.read(`fence ${id}`)
      if (!row) return changed(0)
      session.lastInsertId = Number(row.epoch) + (raise ? 1 : 0)
      return write(session, `fence ${id}`, { ...row, epoch: session.lastInsertId })
    },
  ],
  [
    /^select id, seq from fence where id in \((.*)\)$/,
    (session, ids) =>
      found(
        ...idsIn(ids).flatMap((id) => {
          const row = session.read(`fence ${id}`)
          return row ? [{ id, seq: row.seq }] : []
        }),
      ),
  ],
  [
    /^select seq, epoch, found from fence where id = (\d+)$/,
    (session, id) => found(session.read(`fence ${id}`)),
  ],
  [
    /^select if\(coalesce\(\(select epoch from fence where id = (\d+)\), last_insert_id\(\)\) = last_insert_id\(\), .*$/,
    (session, id) =>
      failUnless((session.read(`fence ${id}`)?.epoch ?? session.lastInsertId) === session.lastInsertId),
  ],
  [
    new RegExp(`^select found from fence ${LEFT}$`),
    (session, id = '', ...left) => {
      const row = isLeft(session.read(`fence ${id}`), left)
      return found(row && { found: row.found ?? null })
    },
  ],

  // Counters.
  [
    new RegExp(
      `^update counter_value force index \\(primary\\) set .*?\\bvalue = (.+?) ${BY_IDS} and slot = 0$`,
    ),
    (session, value = '', ids) => change(session, value, idsIn(ids), () => true),
  ],
  [
    new RegExp(
      `^update fence straight_join counter_value set seq = (\\d+), found = value, .* value = (.+?) ${LEFT} and counter_id = (\\d+) and slot = 0 and version = (\\d+) and created_at is not null and value between .*$`,
    ),
    async (session, next, value = '', id = '', seq = '', epoch, counterId, version) => {
      const fence = await lockLeft(session, id, [seq, epoch])
      if (!fence) return changed(0)
      const fits = (row: StoredRow) => row.version === Number(version) && Math.abs(Number(row.value)) <= ROOMY
      const answer = await change(session, value, idsIn(counterId), fits)
      if (!answer.affectedRows) return answer
      write(session, `fence ${id}`, { ...fence, seq: Number(next), found: String(answer.insertId) })
      session.isHidden = answer.insertId === 0
      return changed(2, answer.insertId)
    },
  ],
  [
    /^set @found = ''$/,
    (session) => {
      session.found = ''
      return changed(0)
    },
  ],
  [
    /^update counter_value force index \(primary\) set .* value = value \+ if\(length\(@found := .*\)\), (.+), 0\) where counter_id in \(([\d, ]+)\) and slot = 0 and created_at is not null$/,
    async (session, sums = '', ids) => {
      let count = 0
      for (const id of idsIn(ids)) {
        const answer = await change(session, `value + ${literalOf(sums, id)}`, [id], (row) => {
          session.found += `${id} ${row.version} ${row.value},`
          return true
        })
        count += answer.affectedRows
      }
      return changed(count)
    },
  ],
  [/^select @found as found$/, (session) => found({ found: session.found })],
  [
    new RegExp(
      `^select counter_id as id, version, value.* from counter_value force index \\(primary\\) ${BY_IDS} and slot = 0 order by counter_id(?:, slot)?( for update)?$`,
    ),
    async (session, ids, lock) => {
      const rows: object[] = []
      for (const id of idsIn(ids)) {
        if (lock) await session.lock(`counter ${id}`)
        const row = session.read(`counter ${id}`)
        if (row) rows.push({ id, ...row, revision: 0, now: 0, fits: 1 })
      }
      return found(...rows)
    },
  ],
  [
    new RegExp(
      `^select counter_id, version from counter_value force index \\(primary\\) ${BY_IDS}(?: and slot = 0)?( for update skip locked)?$`,
    ),
    async (session, ids, lock) => {
      const rows: object[] = []
      for (const id of idsIn(ids)) {
        const row = session.read(`counter ${id}`)
        if (!row || (lock && !(await session.lock(`counter ${id}`, 'skip')))) continue
        rows.push({ counter_id: id, version: row.version })
      }
      return found(...rows)
    },
  ],
  [
    new RegExp(
      `^select count\\(\\*\\) into @found from counter_value force index \\(primary\\) ${BY_IDS}(?: and slot = 0)? for update nowait$`,
    ),
    async (session, ids) => {
      for (const id of idsIn(ids)) await session.lock(`counter ${id}`, 'fail')
      return changed(0)
    },
  ],
  [
    /^select version, .* as next from counter force index \(primary\) where id = (\d+) for update$/,
    async (session, id) => {
      // No row: here nobody deletes a value by hand, which it would show.
      await session.lock(`definition ${id}`)
      return found()
    },
  ],
  [
    /^update counter set min_value = (\S+), max_value = (\S+), saturates = (\S+),.* version = (\d+) where id = (\d+)$/,
    async (session, min, max, saturates, version, id) => {
      await session.lock(`definition ${id}`)
      const row = session.read(`definition ${id}`)
      const numbers = { minValue: orNull(min), maxValue: orNull(max), version: Number(version) }
      const after = { ...row, ...numbers, saturates: saturates === 'true' ? 1 : 0 }
      return row ? write(session, `definition ${id}`, after) : changed(0)
    },
  ],
  [
    /^update counter_value set .*version = (\d+), hour_start.* where counter_id = (\d+)$/,
    async (session, version, id) => {
      await session.lock(`counter ${id}`)
      const row = session.read(`counter ${id}`)
      return row ? write(session, `counter ${id}`, { ...row, version: Number(version) }) : changed(0)
    },
  ],
  [
    /^delete from counter_value where counter_id = (\d+)$/,
    async (session, id) => {
      await session.lock(`counter ${id}`)
      return write(session, `counter ${id}`, undefined)
    },
  ],
  [
    /^delete from counter where id = (\d+)$/,
    async (session, id) => {
      await session.lock(`definition ${id}`)
      const name = session.read(`definition ${id}`)?.name
      await session.lock(`name ${name}`)
      session.write(`name ${name}`, undefined)
      return write(session, `definition ${id}`, undefined)
    },
  ],
  [/^insert ignore into deleted_counter/, () => changed(1)],
  [/^update revision_mark set revision = greatest\(revision, \d+\)$/, () => changed(1)],

  // Sequences, whose definition never changes.
  [
    /^select id, version, definitions from sequence force index \(primary\) where id in \((.*)\) order by id lock in share mode$/,
    (_, ids) => found(...idsIn(ids).map((id) => ({ id, version: 1, definitions: 0 }))),
  ],
  [
    /^select count\(\*\) into @found from sequence force index \(primary\) where id = \d+ .*nowait \*\/$/,
    () => changed(0),
  ],
  [
    /^insert into sequence_value \(group_id, period_key, identity\) select id, .* where id in \((.*)\) order by id on duplicate key update .*$/,
    async (session, ids) => {
      for (const id of idsIn(ids)) {
        await session.lock(`position ${id}`)
        const group = session.read(`group ${id}`)
        const position = { identity: group?.identity ?? 0, value: null, next: null, generation: 0 }
        if (group && !session.read(`position ${id}`)) session.write(`position ${id}`, position)
      }
      return changed(1)
    },
  ],
  [
    /^select group_id as id, period_key as period, identity, value as last, .* from sequence_value force index \(primary\) where group_id in \((.*)\) and period_key = (\S+) order by group_id( for update)?$/,
    async (session, ids, period, lock) => {
      const rows: object[] = []
      for (const id of idsIn(ids)) {
        if (lock) await session.lock(`position ${id}`)
        const row = session.read(`position ${id}`)
        if (row) rows.push({ id, period: Number(period), ...row, last: row.value })
      }
      return found(...rows)
    },
  ],
  [
    /^insert into sequence_value \(group_id, period_key, value, next_value, generation, created_at, updated_at\) values (.*) on duplicate key update .*$/,
    async (session, values = '') => {
      const stored = values.matchAll(/\((\d+), \d+, (null|-?\d+), (null|-?\d+), (\d+), /g)
      for (const [, id, value, next, generation] of stored) {
        await session.lock(`position ${id}`)
        refuseIfTriggered(session, id)
        const numbers = { value: orNull(value), next: orNull(next), generation: Number(generation) }
        session.write(`position ${id}`, { ...session.read(`position ${id}`), ...numbers })
      }
      return changed(1)
    },
  ],
  [
    /^select count\(\*\) into @found from sequence_value force index \(primary\) where group_id = (\d+) and period_key = \S+ for update nowait$/,
    async (session, id) => {
      await session.lock(`position ${id}`, 'fail')
      return changed(0)
    },
  ],
  [
    /^select id, revision(?:, latest_period_key as latest)? from sequence_group force index \(primary\) where id in \((.*)\) order by id for update$/,
    async (session, ids) => {
      for (const id of idsIn(ids)) await session.lock(`group ${id}`)
      return found(...idsIn(ids).map((id) => ({ id, revision: 1 })))
    },
  ],
  [
    /^update sequence_group (?:force index \(primary\) )?set .* where id (?:in \(|= )([\d, ]+)\)?$/,
    async (session, ids) => {
      for (const id of idsIn(ids)) await session.lock(`group ${id}`)
      return changed(1)
    },
  ],
  [
    /^select count\(\*\) into @found from sequence_group force index \(primary\) where id = (\d+) for update nowait$/,
    async (session, id) => {
      await session.lock(`group ${id}`, 'fail')
      return changed(0)
    },
  ],

  // Idempotency keys.
  [
    /^(insert ignore|replace) into idempotency_key \(hash, fingerprint, applied_at, results, claimed_at\) values (.*)$/,
    async (session, verb, values = '') => {
      let claimed = 0
      for (const [, hash, fingerprint = ''] of values.matchAll(/\(x'(\w+)', x'(\w+)', /g)) {
        await session.lock(`key ${hash}`)
        if (verb !== 'replace' && session.read(`key ${hash}`)) continue
        session.write(`key ${hash}`, { fingerprint, results: null, at: 0, claimedAt: now(session) })
        claimed += 1
      }
      return changed(claimed)
    },
  ],
  [
    /^select hash, .* from idempotency_key force index \(primary\) where hash in \((.*)\) and results <> .* order by hash lock in share mode$/,
    async (session, hashes = '') => {
      const rows: object[] = []
      for (const [, hash = ''] of hashes.matchAll(/x'(\w+)'/g)) {
        await session.lock(`key ${hash}`)
        const row = session.read(`key ${hash}`)
        if (row?.results == null) continue
        const [fingerprint, results] = [hex(row.fingerprint), hex(row.results)]
        const age_us = 1000 * (now(session) - Number(row.claimedAt))
        rows.push({ hash: hex(hash), fingerprint, results, applied_at: new Date(Number(row.at)), age_us })
      }
      return found(...rows)
    },
  ],
  [
    /^insert into idempotency_key \(hash, fingerprint, applied_at, results, claimed_at\) values (.*) on duplicate key update .*$/,
    async (session, values = '') => {
      const stored = values.matchAll(/\(x'(\w+)', x'(\w+)', [\d.]+, x'(\w+)', utc_timestamp\(3\)\)/g)
      for (const [, hash, fingerprint = '', results = ''] of stored) {
        await session.lock(`key ${hash}`)
        session.write(`key ${hash}`, { fingerprint, results, at: now(session), claimedAt: now(session) })
      }
      return changed(1)
    },
  ],
  [
    /^delete from idempotency_key where hash = x'(\w+)'$/,
    async (session, hash) => {
      await session.lock(`key ${hash}`)
      return write(session, `key ${hash}`, undefined)
    },
  ],
  [
    /^select count\(\*\) into @found from idempotency_key force index \(primary\) where hash = x'(\w+)' for update nowait$/,
    async (session, hash) => {
      await session.lock(`key ${hash}`, 'fail')
      return changed(0)
    },
  ],
]

/** Executes a statement. */
export async function answerTo(session: ServerSession, statement: string): Promise<Answer> {
  const text = statement.replace(/\s+/g, ' ').trim()
  for (const [shape, execute] of STATEMENTS) {
    const match = shape.exec(text)
    if (!match) continue
    return execute(session, ...match.slice(1))
  }
  throw new Error(`The simulated server doesn't know this statement: ${text}`)
}

/** Most of the safe range: a value that small additions can't take out of it. */
const ROOMY = Number.MAX_SAFE_INTEGER - 2 ** 42

/** Sets the values of those rows that fit a condition. */
async function change(
  session: ServerSession,
  value: string,
  ids: number[],
  fits: (row: StoredRow) => boolean,
) {
  let count = 0
  let insertId = 0
  for (const id of ids) {
    const key = `counter ${id}`
    const hadLock = session.locks.has(key)
    await session.lock(key)
    const row = session.read(key)
    if (!row || !fits(row)) {
      // As at READ COMMITTED.
      if (!hadLock) session.server.unlock(session, key)
      continue
    }
    const name = session.read(`definition ${id}`)?.name
    if (session.server.refused.has(String(name))) throw new ServerError(REFUSED_BY_TRIGGER)
    if (value.includes('last_insert_id')) insertId = Number(row.value)
    session.write(key, { ...row, value: sumIn(value, Number(row.value)) })
    count += 1
  }
  return changed(count, insertId)
}

/** Fails if a trigger refuses changes of a sequence group. */
function refuseIfTriggered(session: ServerSession, id: string | undefined): void {
  const name = session.read(`group ${id}`)?.name
  if (session.server.refused.has(String(name))) throw new ServerError(REFUSED_BY_TRIGGER)
}

/** What an expression makes of the value of a row. */
function sumIn(expression: string, before: number): number {
  const [, base, number] =
    /^(?:(value|cast\(last_insert_id\(value\) as signed\)) \+ )?(-?\d+)$/.exec(expression) ?? []
  return (base === undefined ? 0 : before) + Number(number)
}

/** The literal of a row in an expression: `case when counter_id in (2, 3) then 5 else 1 end`, or one for all rows. */
function literalOf(expression: string, id: number): string {
  for (const [, ids, literal = ''] of expression.matchAll(/when counter_id in \(([\d, ]+)\) then (\S+)/g))
    if (idsIn(ids).includes(id)) return literal
  return /else (\S+) end$/.exec(expression)?.[1] ?? expression
}

/** Locks a fence. Undefined: it is not as its writer left it. */
async function lockLeft(session: ServerSession, id: string, left: readonly (string | undefined)[]) {
  const hadLock = session.locks.has(`fence ${id}`)
  await session.lock(`fence ${id}`)
  const row = isLeft(session.read(`fence ${id}`), left)
  if (!row && !hadLock) session.server.unlock(session, `fence ${id}`)
  return row
}

function isLeft(
  row: StoredRow | undefined,
  [seq, epoch]: readonly (string | undefined)[],
): StoredRow | undefined {
  const isSame = row?.seq === Number(seq) && (epoch === undefined || row.epoch === Number(epoch))
  return isSame ? row : undefined
}

function kill(session: ServerSession, id: number): Answer {
  const other = session.server.sessions.get(id)
  if (!other || !session.server.mayKill) throw new ServerError(UNKNOWN_THREAD)
  other.end()
  return changed(0)
}

function write(session: ServerSession, key: string, row: StoredRow | undefined): Answer {
  session.write(key, row)
  return changed(1)
}

function failUnless(isTrue: boolean): Answer {
  if (!isTrue) throw new ServerError(SUBQUERY_NO_1_ROW)
  return found({ failure: 0 })
}

function changed(affectedRows: number, insertId = 0): ResultSetHeader {
  // The rest of such an answer is not read.
  return { affectedRows, insertId } as ResultSetHeader
}

function found(...rows: (object | undefined)[]): Answer {
  // Rows of the driver are plain objects.
  return rows.filter((row) => row !== undefined) as Answer
}

function idsIn(text = ''): number[] {
  return [...new Set(text.split(',').map(Number))]
}

function orNull(text: string | undefined): number | null {
  return text === 'null' ? null : Number(text)
}

function hex(text: unknown): Buffer {
  return Buffer.from(String(text), 'hex')
}

function now({ server }: ServerSession): number {
  return server.scheduler.nowMs
}
