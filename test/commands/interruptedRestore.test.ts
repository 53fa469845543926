// @module-tag slow
import { once } from 'node:events'
import { appendFile } from 'node:fs/promises'
import { createConnection } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { createRandom } from '../support/random.ts'
import {
  counterLine,
  entriesIn,
  exported,
  fileOf,
  fileWith,
  type Line,
  restored,
  runCommand,
  startCommand,
} from '../support/server/transfer.ts'

const COUNTERS = 3000
const GROUPS = 1000
const AT = '2026-11-01T00:00:00.000Z'
const SALT = 'ab'.repeat(16)
const KEY = { namespace: 'default', name: 'c1' }

/** A file with everything that takes more than one line or row. */
function largeFile(): string {
  const hours = upTo(2500).map((n) => [
    new Date(Date.UTC(2026, 0, 1, n)).toISOString().replace('.000', ''),
    n,
  ])
  const subjects = upTo(1500).map((n) => ({
    subject: n.toString(16).padStart(32, '0'),
    value: n,
    at: AT,
    valuesIn: {},
  }))
  const sequence = { namespace: 'default', sequence: 's' }
  const definition = {
    startValue: 1,
    step: 1,
    minValue: null,
    maxValue: null,
    cycle: false,
    format: '{yyyy}/{group}/{value}',
    restartEvery: 'YEAR',
    allowRepeats: false,
    timeZone: 'UTC',
    gapless: false,
  }
  const periodIn = (year: number, n: number) => ({
    period: year,
    lastValue: n,
    nextValue: null,
    generation: 0,
    createdAt: AT,
    updatedAt: AT,
  })
  const latest = { period: 2026, format: definition.format, timeZone: 'UTC', isCurrent: true }
  const place = { ...KEY, subjectSalt: SALT, period: null, start: '1970-01-01T00:00:00.000Z' }
  const lines: Line[] = [
    ...upTo(COUNTERS).map((n) =>
      counterLine(`c${n}`, n, {
        history: { DAY: [['2026-10-01T00:00:00Z', n]], MONTH: [['2026-10-01T00:00:00Z', 2 * n]] },
        ...(n === 1 && { subjectSalt: SALT }),
      }),
    ),
    { type: 'counterHistory', ...KEY, timeZone: 'UTC', history: { HOUR: hours.slice(0, 1000) } },
    { type: 'counterHistory', ...KEY, timeZone: 'UTC', history: { HOUR: hours.slice(1000, 2000) } },
    { type: 'counterHistory', ...KEY, timeZone: 'UTC', history: { HOUR: hours.slice(2000) } },
    {
      type: 'sequence',
      namespace: 'default',
      name: 's',
      definition,
      isDefined: true,
      formatHistory: [],
      pastFormats: ['A-#'],
      createdAt: AT,
    },
    ...upTo(GROUPS).map((n) => ({
      type: 'sequenceGroup',
      ...sequence,
      group: `g${n}`,
      latest: { ...latest, isCurrent: n % 2 === 0 },
      periods: [periodIn(2025, n), periodIn(2026, n)],
    })),
    { type: 'counterSubjects', ...place, subjects: subjects.slice(0, 1000) },
    { type: 'counterSubjects', ...place, subjects: subjects.slice(1000) },
  ]
  return fileWith(lines)
}

/** Runs commands that are killed once so much is there, which may be in the middle of a transaction. */
async function runKilled(target: Awaited<ReturnType<typeof freshDatabase>>, args: string[], times: number) {
  const random = createRandom()
  const tables = ['counter', 'counter_history', 'sequence_group', 'sequence_value', 'counter_subject']
  const count = tables.map((table) => `(select count(*) from ${table})`).join(' + ')
  let hits = 0
  for (const _ of upTo(times)) {
    const { child, ended } = startCommand(target, args)
    const closed = once(child, 'close')
    let isOver = false
    closed.then(() => {
      isOver = true
    })
    const goal = random.below(3 * COUNTERS + 2500 + 3 * GROUPS + 1500)
    while (!isOver) {
      const [row] = await query(target, `select ${count} as count`)
      if (row?.count >= goal && row?.count > 0) break
    }
    child.kill(random.below(2) === 0 ? 'SIGKILL' : 'SIGTERM')
    if (typeof (await ended).code === 'string') hits++
  }
  return hits
}

it('nth restore: ends in the same state if it is killed in the middle again and again, and then continued', async () => {
  const target = await freshDatabase()
  const text = largeFile()
  const path = await fileOf(text)
  const args = ['restore', path, '--continue', '--advance', '10']
  expect(await runKilled(target, args, 10)).toBeGreaterThan(3)
  expect(await runCommand(target, args)).toMatchObject({
    code: 0,
    output: expect.stringMatching(/^Restored as of/),
  })
  const again = await runCommand(target, args)
  expect(again.errors).toContain(`Counters: ${COUNTERS} kept.
Sequences: 1 kept.
Sequence groups: ${GROUPS} kept.
Subjects of counters: 1500 kept.
`)
  expect(again.output).toContain(
    `Moved on by 10: 0 counters, 0 sequence groups; ${COUNTERS} counters and ${GROUPS} groups had been moved on before.`,
  )
  const whole = await freshDatabase()
  expect((await runCommand(whole, args)).errors).toContain(`Counters: ${COUNTERS} created.
Sequences: 1 created.
Sequence groups: ${GROUPS} created.
Subjects of counters: 1500 created.
`)
  // Their numbers were moved on at different times.
  const timeless = async (database: typeof target) =>
    entriesIn((await exported(database)).replaceAll(/"updatedAt":"[^"]+"/g, '"updatedAt":""'))
  expect(await timeless(target)).toEqual(await timeless(whole))
})

/** A database whose next batch of counters waits at `c1234`, until it is released. */
async function lockedDatabase() {
  // Not one with rows that were deleted: the holder would lock the gaps where those are.
  const target = await freshDatabase({ isReused: false })
  await query(target, "insert into namespace (name) values ('default')")
  // Connected to no database: a restore refuses one that others use.
  const { database, ...rest } = target
  const server = { ...rest, database: '' }
  const holder = await createConnection(server)
  onTestFinished(() => holder.destroy())
  await holder.query('begin')
  await holder.query(
    `insert into ${database}.counter (namespace_id, name) select id, 'c1234' from ${database}.namespace`,
  )
  return {
    target,
    release: () => holder.query('rollback'),
    counters: async () =>
      Number((await query(server, `select count(*) as number from ${database}.counter`))[0]?.number),
  }
}

const text = fileWith(upTo(5000).map((n) => counterLine(`c${n}`, 1)))

const REACHED =
  /Restored up to line (\d+), and perhaps some lines after it\. Repeat the command with --continue\.\n$/

it('nth restore: reports the line that an interrupted restore has reached', { tags: 'quick' }, async () => {
  const { target, counters, release } = await lockedDatabase()
  const { child, ended } = startCommand(target, ['restore', await fileOf(text), '--continue'])
  await expect.poll(counters).toBeGreaterThanOrEqual(1000)
  child.kill('SIGTERM')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGTERM', expect.stringMatching(/^Interrupted\. Restored up to line/)])
  // The first line has no counter.
  expect(Number(REACHED.exec(errors)?.[1])).toBeLessThanOrEqual(1 + (await counters()))
  await release()
  expect((await restored(target, text, '--continue')).errors).toMatch(
    /^Counters: (\d+ created, )?\d+ kept\.$/m,
  )
  expect(await counters()).toBe(5000)
})

it('nth restore: stops where the file has changed since it was checked, and reports the line that it has reached', async () => {
  const { target, counters, release } = await lockedDatabase()
  const path = await fileOf(text)
  const { ended } = startCommand(target, ['restore', path, '--continue'])
  await expect.poll(counters).toBeGreaterThanOrEqual(1000)
  await appendFile(path, '\n')
  await release()
  const { code, errors } = await ended
  expect([code, errors]).toEqual([
    1,
    expect.stringMatching(/^The file changed while it was read\.\nRestored up/),
  ])
  expect(errors).toMatch(REACHED)
})

it('nth restore: reports what the database refuses, and goes on when it no longer does', async () => {
  const target = await freshDatabase()
  await query(
    target,
    `create trigger refuse before insert on counter for each row
     begin if new.name = 'c1234' then signal sqlstate '45000' set message_text = 'not this one'; end if; end`,
  )
  const { code, errors } = await restored(target, text)
  expect([code, errors]).toEqual([
    1,
    `not this one
Restored up to line 1201, and perhaps some lines after it. Repeat the command with --continue.\n`,
  ])
  expect(await query(target, 'select count(*) as count from counter')).toEqual([{ count: 1200 }])
  await query(target, 'drop trigger refuse')
  expect(await restored(target, text, '--continue')).toMatchObject({
    code: 0,
    errors: expect.stringContaining('Counters: 3800 created, 1200 kept.\n'),
  })
})

it('nth restore --advance: reports how many numbers it has moved on when it is interrupted', async () => {
  const target = await freshDatabase()
  expect((await restored(target, text)).code).toBe(0)
  const { database, ...rest } = target
  const server = { ...rest, database: '' }
  const holder = await createConnection(server)
  onTestFinished(() => holder.destroy())
  const counter = `(select id from ${database}.counter where name = 'c1234')`
  // Otherwise it would lock the gap for later rows, too.
  await holder.query('set transaction isolation level read committed')
  await holder.query('begin')
  await holder.query(`select * from ${database}.counter_value where counter_id = ${counter} for update`)
  const { child, ended } = startCommand(target, ['restore', '--advance', '7'])
  const moved = async () => {
    const [row] = await query(server, `select sum(value) as number from ${database}.counter_value`)
    return (Number(row?.number) - 5000) / 7
  }
  await expect.poll(moved).toBe(1499)
  child.kill('SIGTERM')
  const { code, errors } = await ended
  expect([code, errors]).toEqual(['SIGTERM', expect.stringMatching(MOVED)])
  const [, sure] = MOVED.exec(errors) ?? []
  expect(await moved()).toBeGreaterThanOrEqual(Number(sure))
  expect(await moved()).toBeLessThanOrEqual(Number(sure) + 500)
})

const MOVED =
  /^Interrupted\. Moved on by 7: (\d+) counters, 0 sequence groups, and perhaps up to 500 more of both\. A repeat moves them once more\.\n$/

it('nth restore --advance: says only what it has done when it has moved many numbers on', async () => {
  const target = await freshDatabase()
  expect((await restored(target, text)).code).toBe(0)
  expect(await runCommand(target, ['restore', '--advance', '7'])).toMatchObject({
    code: 0,
    output: 'Moved on by 7: 5000 counters, 0 sequence groups.\n',
    errors: '',
  })
})

const definition = (fields: object) => ({ ...Object(counterLine('', 0).definition), ...fields })

it.each<[string, Line[], string]>([
  [
    'a value outside its bounds',
    [counterLine('a', 9, { definition: definition({ maxValue: 3 }) })],
    'Line 2: value: must be from minValue to maxValue of its definition.',
  ],
  [
    'a sequence whose first number is outside its bounds',
    [
      {
        type: 'sequence',
        namespace: 'n',
        name: 's',
        definition: {
          startValue: 9,
          step: 1,
          minValue: null,
          maxValue: 3,
          cycle: false,
          format: null,
          restartEvery: null,
          allowRepeats: false,
          timeZone: 'UTC',
          gapless: false,
        },
        isDefined: true,
        formatHistory: [],
        createdAt: AT,
      },
    ],
    'Line 2: definition: Argument "definition.startValue" makes startValue 9 higher than maxValue 3.\n',
  ],
])('nth restore: applies nothing if a file has %s', async (_, lines, message) => {
  const target = await freshDatabase()
  expect(await restored(target, fileWith([...lines, counterLine('b', 1)]))).toMatchObject({
    code: 1,
    errors: expect.stringContaining(message),
  })
  expect(await query(target, 'select id from counter')).toEqual([])
})
