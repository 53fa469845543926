import { join } from 'node:path'
import { expect, it } from 'vitest'
import { claimOf } from '../../src/rules/idempotency.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { stopClock } from '../support/model/periods.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import {
  counterLine,
  entriesIn,
  exported,
  fileWith,
  type Line,
  restored,
  runCommand,
} from '../support/server/transfer.ts'

stopClock()

const likes = { namespace: 'n', name: 'likes' }
const tickets = { namespace: 'n', sequence: 'tickets', group: 'A' }

type Target = Awaited<ReturnType<typeof freshDatabase>>
type Nth = ReturnType<typeof openTestNth>

/** What each of some subjects would be told again. */
const countsOf = ({ counters }: Nth, subjects: readonly string[]) =>
  Promise.all(
    subjects.map(async (subject) => {
      const { value, at, valuesIn } = (await counters.changeOf(likes, subject)) ?? {}
      return { subject, value, at, valuesIn }
    }),
  )

const saltsOf = async (target: Target) =>
  (
    await query(
      target,
      'select hex(subject_salt) as salt from counter union all select hex(subject_salt) from sequence',
    )
  ).map(({ salt }) => salt)

it('nth export and restore: keeps subjects, their numbers and how often they count, in a database without them', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const one = openTestNth(before)
  await one.counters.define(likes, { oncePer: 'MONTH', slots: 3, timeZone: 'Europe/Berlin' })
  for (const subject of ['ann', 'bob', 'cid']) await one.counters.countOnce(likes, subject)
  await one.counters.uncount(likes, 'bob')
  const issued = await one.sequences.nextOnce(tickets, 'ann')
  const text = await exported(before)
  expect(text.split('\n')[0]).toContain('"formatVersion":2')
  expect(await restored(after, text)).toMatchObject({
    code: 0,
    errors: expect.stringContaining(`Subjects of counters: 2 created.
Subjects of sequence groups: 1 created.
`),
  })
  expect(await saltsOf(after)).toEqual(await saltsOf(before))
  const other = openTestNth(after)
  const everyone = ['ann', 'bob', 'cid', 'eve']
  expect(await countsOf(other, everyone)).toEqual(await countsOf(one, everyone))
  expect(await other.counters.countOnce(likes, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  expect(await other.counters.countOnce(likes, 'bob')).toMatchObject({ value: 3, isAlreadyCounted: false })
  expect((await other.counters.read(likes)).definition).toMatchObject({ oncePer: 'MONTH' })
  const again = await other.sequences.nextOnce(tickets, 'ann')
  expect([again.issued.value, again.at]).toEqual([issued.issued.value, issued.at])
  expect((await other.sequences.nextOnce(tickets, 'bob')).issued.value).toBe(2)
})

it('nth export and restore: writes a file that earlier versions read, if nobody counts once', async () => {
  const target = await freshDatabase()
  const { counters, sequences } = openTestNth(target)
  await counters.incrementBy(likes, 1)
  await sequences.next(tickets, 1)
  const text = await exported(target)
  expect(text.split('\n')[0]).toContain('"formatVersion":1')
  expect(text).not.toMatch(/subject|oncePer/i)
  await counters.define(likes, { oncePer: 'DAY' })
  expect((await exported(target)).split('\n')[0]).toContain('"formatVersion":2')
})

it('nth export and restore: leaves forgotten subjects out, and restores those that have counted since', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const one = openTestNth(before)
  for (const subject of ['ann', 'bob']) await one.counters.countOnce(likes, subject)
  await one.counters.reset(likes, 10, {}, {}, true)
  expect(await exported(before)).not.toMatch(/subject/i)
  await one.counters.countOnce(likes, 'ann')
  const { errors } = await restored(after, await exported(before))
  expect(errors).toContain('Subjects of counters: 1 created.\n')
  const other = openTestNth(after)
  expect(await countsOf(other, ['ann', 'bob'])).toEqual(await countsOf(one, ['ann', 'bob']))
  expect(await other.counters.countOnce(likes, 'ann')).toMatchObject({ value: 11, isAlreadyCounted: true })
  expect(await other.counters.countOnce(likes, 'bob')).toMatchObject({ value: 12, isAlreadyCounted: false })
})

it('nth export and restore: stops at subjects that belong to nothing in the file', async () => {
  const salt = 'ab'.repeat(16)
  const line: Line = {
    type: 'counterSubjects',
    namespace: 'default',
    name: 'a',
    subjectSalt: salt,
    period: null,
    start: '1970-01-01T00:00:00Z',
    subjects: [{ subject: salt, value: 1, at: '2026-11-20T00:00:00.000Z', valuesIn: {} }],
  }
  const counter = counterLine('a', 9, { subjectSalt: salt })
  const restoredWith = async (...lines: Line[]) => restored(await freshDatabase(), fileWith(lines))
  expect(await restoredWith(line)).toMatchObject({
    code: 1,
    errors: expect.stringMatching(
      /^counter "a" in "default": no line before has what this line belongs to\./,
    ),
  })
  expect(await restoredWith(counter, line)).toMatchObject({
    code: 0,
    errors: expect.stringContaining('Subjects of counters: 1 created.'),
  })
})

it('nth export and restore: exports and restores thousands of subjects of a counter in lines of a thousand', {
  tags: 'slow',
}, async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase({ isReused: false })]
  const { counters } = openTestNth(before)
  const subjects = upTo(5500).map((n) => `subject ${n}`)
  await Promise.all(subjects.map((subject) => counters.countOnce(likes, subject)))
  await counters.countOnce({ namespace: 'n', name: 'next' }, 'ann')
  const text = await exported(before)
  const lines = entriesIn(text).filter(({ type }) => type === 'counterSubjects')
  expect(lines.map(({ subjects }) => (subjects as unknown[]).length)).toEqual([
    ...Array(5).fill(1000),
    500,
    1,
  ])
  const { code, errors } = await restored(after, text)
  expect([code, errors]).toEqual([0, expect.stringContaining('Subjects of counters: 5501 created.\n')])
  expect(entriesIn(await exported(after))).toEqual(entriesIn(text))
  const other = openTestNth(after).counters
  const again = await Promise.all(subjects.map((subject) => other.countOnce(likes, subject)))
  expect(again.every(({ isAlreadyCounted }) => isAlreadyCounted)).toBe(true)
  expect((await other.read(likes)).value).toBe(5500)
})

it('nth export and restore: restores subjects, and moves no number of theirs on', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const one = openTestNth(before)
  await one.counters.countOnce(likes, 'ann')
  await one.sequences.nextOnce(tickets, 'ann')
  const directory = join(await temporaryDirectory(), 'backup')
  expect((await runCommand(before, ['backup', directory])).code).toBe(0)
  const { code, errors } = await runCommand(after, ['restore', directory, '--advance', '50'])
  expect([code, errors]).toEqual([0, expect.stringContaining('Subjects of counters: 1 created.')])
  const other = openTestNth(after)
  expect(await other.counters.countOnce(likes, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  expect(await other.counters.countOnce(likes, 'bob')).toMatchObject({ value: 52, isAlreadyCounted: false })
  expect((await other.sequences.nextOnce(tickets, 'ann')).issued.value).toBe(1)
  expect((await other.sequences.nextOnce(tickets, 'bob')).issued.value).toBe(52)
})

it('nth export and restore: restores the results of idempotency keys that were used with a subject', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const claimed = (key: string) => ({ claim: claimOf('n', key, []) })
  const callsTo = ({ counters, sequences }: Nth) =>
    Promise.all([
      counters.countOnce(likes, 'ann', claimed('again')),
      counters.uncount({ namespace: 'n', name: 'other' }, 'ann', claimed('none')),
      sequences.nextOnce(tickets, 'ann', claimed('ticket')),
    ])
  const one = openTestNth(before)
  await one.counters.countOnce(likes, 'ann')
  await one.sequences.nextOnce(tickets, 'ann')
  await callsTo(one)
  const directory = join(await temporaryDirectory(), 'backup')
  expect((await runCommand(before, ['backup', directory])).code).toBe(0)
  const { code, errors } = await runCommand(after, ['restore', directory])
  expect([code, errors]).toEqual([0, expect.stringContaining('Idempotency keys: 3 created.')])
  const results = await callsTo(openTestNth(after))
  expect(results).toEqual(await callsTo(one))
  expect(results).toMatchObject([{ isAlreadyCounted: true, isReplayed: true }, null, { isReplayed: true }])
})
