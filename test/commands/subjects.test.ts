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
  imported,
  type Line,
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

it('keeps subjects, their numbers and how often they count, in a database without them', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const one = openTestNth(before)
  await one.counters.define(likes, { oncePer: 'MONTH', slots: 3, timeZone: 'Europe/Berlin' })
  for (const subject of ['ann', 'bob', 'cid']) await one.counters.countOnce(likes, subject)
  await one.counters.uncount(likes, 'bob')
  const issued = await one.sequences.nextOnce(tickets, 'ann')
  const text = await exported(before)
  expect(text.split('\n')[0]).toContain('"formatVersion":2')
  expect(await imported(after, text)).toMatchObject({
    code: 0,
    errors: `Namespaces: 1 created.
Counters: 1 created.
Sequences: 1 created.
Sequence groups: 1 created.
Subjects of counters: 2 created.
Subjects of sequence groups: 1 created.
`,
  })
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

it('writes a file that earlier versions read, if nobody counts once', async () => {
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

it('changes nothing when a file is imported where it came from', async () => {
  const target = await freshDatabase()
  const nth = openTestNth(target)
  for (const subject of ['ann', 'bob']) await nth.counters.countOnce(likes, subject)
  await nth.sequences.nextOnce(tickets, 'ann')
  const [text, salts] = [await exported(target), await saltsOf(target)]
  for (const option of ['--dry-run', '--overwrite'])
    expect((await imported(target, text, option)).errors).toContain(
      'Subjects of counters: 2 unchanged.\nSubjects of sequence groups: 1 unchanged.\n',
    )
  expect(entriesIn(await exported(target))).toEqual(entriesIn(text))
  expect(await saltsOf(target)).toEqual(salts)
})

it('merges the subjects of copies that went apart, of which the earlier call stays', async () => {
  let now = new Date('2026-11-20T12:00:00Z')
  const targets = [await freshDatabase(), await freshDatabase()] as const
  const [one, other] = targets.map((target) => openTestNth(target, { now: () => now })) as [Nth, Nth]
  await one.counters.countOnce(likes, 'ann')
  await one.sequences.nextOnce(tickets, 'ann')
  await imported(targets[1], await exported(targets[0]))
  now = new Date('2026-11-20T12:01:00Z')
  await one.counters.countOnce(likes, 'bob')
  await other.counters.countOnce(likes, 'cid')
  await other.counters.countOnce(likes, 'dan')
  await other.sequences.nextOnce(tickets, 'cid')
  now = new Date('2026-11-20T12:02:00Z')
  await other.counters.countOnce(likes, 'bob')
  await one.counters.countOnce(likes, 'cid')
  await one.sequences.nextOnce(tickets, 'cid')
  await one.sequences.nextOnce(tickets, 'bob')
  const { errors } = await imported(targets[1], await exported(targets[0]))
  expect(errors).toContain(
    'Subjects of counters: 1 raised, 2 unchanged.\nSubjects of sequence groups: 1 created, 2 unchanged.\n',
  )
  await imported(targets[0], await exported(targets[1]))
  const counts = await countsOf(one, ['ann', 'bob', 'cid', 'dan'])
  expect(counts.map(({ value }) => value)).toEqual([1, 2, 2, 3])
  expect(await countsOf(other, ['ann', 'bob', 'cid', 'dan'])).toEqual(counts)
  for (const { counters, sequences } of [one, other]) {
    expect((await counters.read(likes)).value).toBe(4)
    expect((await sequences.numbersOf(tickets, 'cid'))?.issued.value).toBe(2)
    expect((await sequences.numbersOf(tickets, 'bob'))?.issued.value).toBe(3)
  }
})

it('gives its salt to what has no subjects, also in processes that have read the other one', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const [one, other] = [openTestNth(before), openTestNth(after)]
  await one.counters.countOnce(likes, 'ann')
  await one.sequences.nextOnce(tickets, 'ann')
  await other.counters.countOnce(likes, 'bob')
  await other.counters.uncount(likes, 'bob')
  await other.counters.incrementBy(likes, 5)
  await other.sequences.next(tickets, 1)
  const text = await exported(before)
  expect((await imported(after, text, '--dry-run')).errors).toContain('Subjects of counters: 1 created.')
  expect(await other.counters.changeOf(likes, 'ann')).toBeNull()
  expect((await imported(after, text)).errors).toMatch(/^Counters: 1 raised\.\nSequences: 1 raised\./m)
  expect(await saltsOf(after)).toEqual(await saltsOf(before))
  expect(await other.counters.countOnce(likes, 'ann')).toMatchObject({ value: 1, isAlreadyCounted: true })
  expect(await other.counters.countOnce(likes, 'bob')).toMatchObject({ value: 6, isAlreadyCounted: false })
  expect((await other.sequences.nextOnce(tickets, 'ann')).issued.value).toBe(1)
  expect((await other.sequences.nextOnce(tickets, 'bob')).issued.value).toBe(2)
})

it('leaves forgotten subjects out, and merges those that have counted since', async () => {
  const targets = [await freshDatabase(), await freshDatabase()] as const
  const [one, other] = targets.map((target) => openTestNth(target)) as [Nth, Nth]
  for (const subject of ['ann', 'bob']) await one.counters.countOnce(likes, subject)
  const old = await exported(targets[0])
  await one.counters.reset(likes, 10, {}, {}, true)
  expect(await exported(targets[0])).not.toMatch(/subject/i)
  await one.counters.countOnce(likes, 'ann')
  const { errors } = await imported(targets[1], await exported(targets[0]))
  expect(errors).toContain('Subjects of counters: 1 created.\n')
  expect(await countsOf(other, ['ann', 'bob'])).toEqual(await countsOf(one, ['ann', 'bob']))
  expect(await other.counters.countOnce(likes, 'ann')).toMatchObject({ value: 11, isAlreadyCounted: true })
  expect(await other.counters.countOnce(likes, 'bob')).toMatchObject({ value: 12, isAlreadyCounted: false })
  const merged = await imported(targets[0], await exported(targets[1]))
  expect(merged.errors).toContain('Subjects of counters: 1 created, 1 unchanged.\n')
  expect(await one.counters.countOnce(likes, 'bob')).toMatchObject({ value: 12, isAlreadyCounted: true })
  expect((await imported(targets[0], old)).code).toBe(1)
  await one.counters.reset(likes, 0, {}, {}, true)
  expect((await imported(targets[0], old)).errors).toContain('Subjects of counters: 2 created.\n')
  expect(await one.counters.countOnce(likes, 'bob')).toMatchObject({ value: 2, isAlreadyCounted: true })
})

it('refuses a counter and a sequence whose subjects have another salt, and says what to do', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const [one, other] = [openTestNth(before), openTestNth(after)]
  for (const { counters, sequences } of [one, other]) {
    await counters.countOnce(likes, 'ann')
    await sequences.nextOnce(tickets, 'ann')
  }
  await one.counters.countOnce(likes, 'bob')
  const text = await exported(before)
  const { code, errors } = await imported(after, text)
  const reason =
    'its subjects were hashed with another salt than those here, so they cannot be merged; delete it here first, or import only its number, from a CSV.'
  expect([code, errors]).toEqual([
    1,
    `Line 3: counter "likes" in "n": ${reason}
Line 4: sequence "tickets" in "n": ${reason}
Namespaces: 1 unchanged.
Counters: 1 refused.
Sequences: 1 refused.
Sequence groups: 1 unchanged.
Subjects of counters: 2 refused.
Subjects of sequence groups: 1 refused.
`,
  ])
  expect((await other.counters.read(likes)).value).toBe(1)
  expect(await other.counters.changeOf(likes, 'bob')).toBeNull()
  await other.counters.delete(likes)
  expect((await imported(after, text)).errors).toContain('Subjects of counters: 2 created.')
  expect(await other.counters.changeOf(likes, 'bob')).toMatchObject({ value: 2 })
})

it('keeps the number that a subject has got since a restart', async () => {
  const [before, after] = [await freshDatabase(), await freshDatabase()]
  const [one, other] = [openTestNth(before), openTestNth(after)]
  await one.sequences.nextOnce(tickets, 'ann')
  await imported(after, await exported(before))
  await other.sequences.restart(tickets, 100)
  expect((await other.sequences.nextOnce(tickets, 'ann')).issued.value).toBe(100)
  const { errors } = await imported(after, await exported(before))
  expect(errors).toContain('Subjects of sequence groups: 1 unchanged.')
  expect((await other.sequences.nextOnce(tickets, 'ann')).issued.value).toBe(100)
  expect((await imported(before, await exported(after))).errors).toContain(
    'Subjects of sequence groups: 1 raised.',
  )
  expect((await one.sequences.nextOnce(tickets, 'ann')).issued.value).toBe(100)
})

it('refuses subjects of a counter that was not imported', async () => {
  const target = await freshDatabase()
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
  const bounded = { ...counter, definition: { ...Object(counter.definition), maxValue: 5 } }
  const { code, errors } = await imported(target, fileWith([bounded, line]))
  expect([code, errors]).toEqual([1, expect.stringContaining('Subjects of counters: 1 refused.')])
  expect((await imported(target, fileWith([counter, line]))).errors).toContain(
    'Subjects of counters: 1 created.',
  )
})

it('exports and imports thousands of subjects of a counter in lines of a thousand', async () => {
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
  const { code, errors } = await imported(after, text)
  expect([code, errors]).toEqual([0, expect.stringContaining('Subjects of counters: 5501 created.\n')])
  expect(entriesIn(await exported(after))).toEqual(entriesIn(text))
  const other = openTestNth(after).counters
  const again = await Promise.all(subjects.map((subject) => other.countOnce(likes, subject)))
  expect(again.every(({ isAlreadyCounted }) => isAlreadyCounted)).toBe(true)
  expect((await other.read(likes)).value).toBe(5500)
})

it('restores subjects, and moves no number of theirs on', async () => {
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

it('restores the results of idempotency keys that were used with a subject', async () => {
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
