import { expect, it } from 'vitest'
import { sweepSequences } from '../../src/repository/jobs.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { subscribe } from '../support/client/events.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'
import { rowsRead } from '../support/database/rowsRead.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const sequence = { namespace: 'n', name: 's' }
const key = { namespace: 'n', sequence: 's', group: '' }

const NUMBERS =
  'value formatted count step lastValue values formattedValues at alreadyIssued group { lastValue nextValue }'
const NEXT = `mutation($subject: String, $key: String, $count: Int! = 1, $group: String! = "g") {
  nextInSequence(name: "s", group: $group, count: $count, subject: $subject, idempotencyKey: $key) { ${NUMBERS} replayed }
}`
const NUMBERS_OF = `query($subject: String!, $group: String! = "g") {
  sequence(name: "s") { group(name: $group) { numbersOf(subject: $subject) { ${NUMBERS} } } }
}`

it('nextInSequence(subject:): issues a subject one number in a group, and returns it again, with the text that it had', async () => {
  const { ask } = await startService()
  await ask('mutation { defineSequence(name: "s", definition: { format: "A/{group}/{value}" }) { format } }')
  const next = async (subject: string, group = 'g') => (await ask(NEXT, { subject, group })).nextInSequence
  const numbersOf = async (subject: string) => (await ask(NUMBERS_OF, { subject })).sequence.group.numbersOf
  expect(await numbersOf('ann')).toBeNull()
  const first = await next('ann')
  expect(first).toMatchObject({ value: 1, formatted: 'A/g/1', alreadyIssued: false, replayed: false })
  expect(await next('bob')).toMatchObject({ value: 2, alreadyIssued: false })
  await ask(
    'mutation { defineSequence(name: "s", definition: { format: "T/{group}/{value:3}" }) { format } }',
  )
  const again = await next('ann')
  expect(again).toEqual({ ...first, alreadyIssued: true, group: { lastValue: 2, nextValue: 3 } })
  const { replayed, ...numbers } = again
  expect(await numbersOf('ann')).toEqual(numbers)
  expect(await numbersOf('eve')).toBeNull()
  expect(await next('eve')).toMatchObject({ value: 3, formatted: 'T/g/003', alreadyIssued: false })
  // Each group has its own numbers.
  expect(await next('ann', 'other')).toMatchObject({ value: 1, alreadyIssued: false })
})

it('numbersOf: reads the numbers of many subjects together', async () => {
  const { ask } = await startService()
  for (const subject of ['ann', 'bob']) await ask(NEXT, { subject })
  const fields = ['ann', 'bob', 'eve'].map((who) => `${who}: numbersOf(subject: "${who}") { value }`)
  const { sequence } = await ask(`{ sequence(name: "s") { group(name: "g") { ${fields.join(' ')} } } }`)
  expect(sequence.group).toEqual({ ann: { value: 1 }, bob: { value: 2 }, eve: null })
})

it('nextInSequence(subject:): replays a key, and returns a subject its number under another key', async () => {
  const { ask } = await startService()
  await ask('mutation { defineSequence(name: "s", definition: { format: "A/{group}/{value}" }) { format } }')
  const next = async (key: string) => (await ask(NEXT, { subject: 'ann', key })).nextInSequence
  const first = await next('k1')
  expect(first).toMatchObject({ value: 1, alreadyIssued: false, replayed: false })
  expect(await next('k1')).toEqual({ ...first, replayed: true })
  await ask(NEXT, {})
  const second = await next('k2')
  const group = { lastValue: 2, nextValue: 3 }
  expect(second).toEqual({ ...first, alreadyIssued: true, group })
  await ask('mutation { defineSequence(name: "s", definition: { format: "T/{group}/{value}" }) { format } }')
  expect(await next('k2')).toEqual({ ...second, replayed: true })
})

it('nextInSequence(subject:): refuses a block, an invalid subject, and a gapless sequence', async () => {
  const { ask, refusal } = await startService()
  expect(await refusal(NEXT, { subject: 'ann', count: 2 })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'count',
    limit: 1,
  })
  for (const subject of ['', 'x'.repeat(256), 'a\u0000']) {
    const error = expect.objectContaining({ code: 'BAD_USER_INPUT', argument: 'subject' })
    expect(await refusal(NEXT, { subject })).toEqual(error)
    expect(await refusal(NUMBERS_OF, { subject })).toEqual(error)
  }
  await ask('mutation { defineSequence(name: "s", definition: { gapless: true }) { gapless } }')
  expect(await refusal(NEXT, { subject: 'ann' })).toEqual(await refusal(NEXT))
})

it('numbersOf: is refused in a subscription', async () => {
  const { url } = await startService()
  const fields = 'name numbersOf(subject: "ann") { value }'
  const id = Buffer.from('SequenceGroup:default\ns\ng').toString('base64url')
  const text = `subscription { nodes(ids: ["${id}"]) { ... on SequenceGroup { ${fields} } } }`
  expect(await (await subscribe(url, text)).next()).toMatchObject({
    data: { nodes: [{ name: 'g', numbersOf: null }] },
    errors: [{ path: ['nodes', 0, 'numbersOf'], extensions: { code: 'BAD_USER_INPUT' } }],
  })
})

it('nextInSequence(subject:): finds the subjects of many groups among those of others by their keys', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  const groups = upTo(200).map((index) => ({ ...key, group: `g${index}` }))
  await Promise.all(groups.map((group) => sequences.nextOnce(group, 'ann')))
  await query(
    target,
    `insert into sequence_subject (group_id, period_key, subject, generation, value, formatted, issued_at)
     select g.id, 0, left(unhex(sha2(concat(g.id, ' ', n.id), 256)), 16), 0, 1, '1', utc_timestamp()
       from sequence_group g
       join sequence_group n on n.id <= 200`,
  )
  const statements = collectStatements('sequence_subject')
  await Promise.all(groups.map((group) => sequences.nextOnce(group, 'bob')))
  await Promise.all(groups.map((group) => sequences.numbersOf(group, 'bob')))
  expect(statements.join()).toContain('for update')
  expect(await rowsRead(target, 'sequence_subject', statements)).toBeLessThan(10_000)
})

it('numbersOf: does not make the next flush longer', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  for (const _ of upTo(2)) await sequences.next(key, 1)
  await sequences.nextOnce(key, 'ann')
  const statements = collectStatements('sequence_value')
  await sequences.next(key, 1)
  await sequences.numbersOf(key, 'ann')
  await sequences.next(key, 1)
  const [locked, written, ...others] = statements.map((text) => text.split(';\n').length)
  expect(others).toEqual([1, locked, written])
})

it('nextInSequence(subject:): keeps no trace of a call that was refused', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  await sequences.define(sequence, { maxValue: 1 })
  await sequences.nextOnce(key, 'ann')
  await expect(sequences.nextOnce(key, 'bob')).rejects.toMatchObject({ code: 'SEQUENCE_EXHAUSTED' })
  expect(await sequences.numbersOf(key, 'bob')).toBeNull()
  // Who has a number gets it also at the end of the sequence.
  expect((await sequences.nextOnce(key, 'ann')).issued.value).toBe(1)
  await sequences.define(sequence, { maxValue: null })
  expect((await sequences.nextOnce(key, 'bob')).issued).toMatchObject({ value: 2 })
})

it('nextInSequence(subject:): issues a subject another number in the next period, and keeps it over a definition', async () => {
  let now = new Date('2026-11-30T22:30:00Z')
  const { sequences } = openTestNth(await freshDatabase(), { now: () => now })
  const next = async () => {
    const { issued, at } = await sequences.nextOnce(key, 'ann')
    return [issued.value, issued.earlier?.formatted, at.toISOString()]
  }
  await sequences.define(sequence, {
    restartEvery: 'MONTH',
    timeZone: 'Europe/Berlin',
    format: '{yyyy}-{MM}-{value}',
    startValue: 7,
  })
  expect(await next()).toEqual([7, undefined, '2026-11-30T22:30:00.000Z'])
  now = new Date('2026-11-30T22:59:59Z')
  await sequences.define(sequence, { format: 'T-{yyyy}-{MM}-{value}' })
  expect(await next()).toEqual([7, '2026-11-7', '2026-11-30T22:30:00.000Z'])
  now = new Date('2026-11-30T23:00:00Z')
  expect(await sequences.numbersOf(key, 'ann')).toBeNull()
  expect(await next()).toEqual([7, undefined, '2026-11-30T23:00:00.000Z'])
  now = new Date('2026-12-30T23:00:00Z')
  expect(await next()).toEqual([7, 'T-2026-12-7', '2026-11-30T23:00:00.000Z'])
})

it('nextInSequence(subject:): forgets the numbers of subjects at a restart, and with the sequence', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  const next = async (subject: string) => {
    const { issued } = await sequences.nextOnce(key, subject)
    return [issued.value, issued.earlier !== undefined]
  }
  expect([await next('ann'), await next('bob')]).toEqual([
    [1, false],
    [2, false],
  ])
  await sequences.restart(key, 10)
  expect(await sequences.numbersOf(key, 'ann')).toBeNull()
  expect([await next('bob'), await next('ann'), await next('bob')]).toEqual([
    [10, false],
    [11, false],
    [10, true],
  ])
  // In one flush: each is sent before the next one, and none is waited for.
  const inOrder = async (...calls: (() => Promise<unknown>)[]) => {
    const sent: Promise<unknown>[] = []
    for (const call of calls) {
      sent.push(call())
      await new Promise((resolve) => process.nextTick(resolve))
    }
    return Promise.all(sent)
  }
  const eve = () => next('eve')
  expect(
    await inOrder(
      eve,
      () => sequences.restart(key, 20),
      eve,
      () => next('ann'),
      eve,
    ),
  ).toMatchObject([[12, false], { nextValue: 20 }, [20, false], [21, false], [20, true]])
  expect((await sequences.numbersOf(key, 'eve'))?.issued.value).toBe(20)
  await sequences.delete(sequence)
  expect(await sequences.numbersOf(key, 'ann')).toBeNull()
  expect([await next('ann'), await next('ann')]).toEqual([
    [1, false],
    [1, true],
  ])
})

it('nextInSequence(subject:): issues numbers to subjects in a sequence that an older version created', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.define(sequence, {})
  await query(target, 'update sequence set subject_salt = null')
  await sequences.next(key, 1)
  await sequences.next({ ...key, group: 'g' }, 1)
  const processes = upTo(2).map(() => openTestNth(target))
  expect(await processes[0]?.sequences.numbersOf(key, 'ann')).toBeNull()
  const values = await Promise.all(
    processes.map(async (each) => (await each.sequences.nextOnce(key, 'ann')).issued.value),
  )
  expect(values).toEqual([2, 2])
  const inGroup = { ...key, group: 'g' }
  const numbers = await Promise.all(
    processes.map(async (each) => (await each.sequences.nextOnce(inGroup, 'bob')).issued.value),
  )
  expect(numbers).toEqual([2, 2])
  // The process that created it has read it without a salt.
  expect((await sequences.nextOnce(key, 'ann')).issued).toMatchObject({
    value: 2,
    earlier: { formatted: '2' },
  })
})

it('nextInSequence(subject:): stores different hashes of a subject for two sequences, and nothing of its text', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  await sequences.nextOnce(key, 'ann@example.com')
  await sequences.nextOnce({ ...key, sequence: 'other' }, 'ann@example.com')
  const rows = await query(target, 'select subject from sequence_subject')
  expect(new Set(rows.map(({ subject }) => subject.toString('hex'))).size).toBe(2)
})

it('sweepSequences: removes the subjects of past periods a day after their end, and those of deleted sequences', async () => {
  const target = await freshDatabase()
  let now = new Date('2026-06-01T12:00:00Z')
  const { sequences } = openTestNth(target, { now: () => now })
  const database = openTestDatabase(target)
  await sequences.nextOnce({ ...key, sequence: 'ever' }, 'ann')
  await sequences.nextOnce({ ...key, sequence: 'deleted' }, 'ann')
  await sequences.delete({ namespace: 'n', name: 'deleted' })
  for (const [name, restartEvery] of [
    ['s', 'DAY'],
    ['yearly', 'YEAR'],
  ] as const) {
    await sequences.define({ namespace: 'n', name }, { restartEvery, allowRepeats: true })
  }
  for (const day of upTo(4)) {
    now = new Date(`2026-06-0${day}T12:00:00Z`)
    await sequences.nextOnce(key, 'ann')
    await sequences.nextOnce({ ...key, sequence: 'yearly' }, 'ann')
  }
  const periods = async () =>
    sorted((await query(target, 'select period_key from sequence_subject')).map((row) => row.period_key))
  await sweepSequences({ database, now, shouldContinue: () => true })
  // Noon of the 4th: the 2nd ended 36 hours ago, the 3rd 12 hours ago.
  expect(await periods()).toEqual([0, 2026, 20260603, 20260604])
  now = new Date('2027-01-02T00:00:00Z')
  await sweepSequences({ database, now, shouldContinue: () => true })
  expect(await periods()).toEqual([0])
})

it('sweepSequences: deletes the subjects of past periods also of a sequence that restarts less often now, or never', async () => {
  const target = await freshDatabase()
  const database = openTestDatabase(target)
  let now = new Date('2026-06-01T12:00:00Z')
  const { sequences } = openTestNth(target, { now: () => now })
  for (const later of ['MONTH', null] as const) {
    const name = `daily, later ${later}`
    await sequences.define({ namespace: 'n', name }, { restartEvery: 'DAY', allowRepeats: true })
    await sequences.nextOnce({ ...key, sequence: name }, 'ann')
    await sequences.define({ namespace: 'n', name }, { restartEvery: later })
    await sequences.nextOnce({ ...key, sequence: name }, 'ann')
  }
  now = new Date('2026-06-03T12:00:00Z')
  await sweepSequences({ database, now, shouldContinue: () => true })
  const rows = await query(target, 'select period_key from sequence_subject order by period_key')
  expect(rows.map((row) => row.period_key)).toEqual([0, 202606])
})
