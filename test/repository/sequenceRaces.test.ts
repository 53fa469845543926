import { expect, it } from 'vitest'
import type { Nth } from '../../src/repository/nth.ts'
import { writerFor } from '../../src/rules/sequence.ts'
import { inParallel, upTo } from '../support/client/client.ts'
import { DEFINE, KEY } from '../support/client/sequenceCalls.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { holdRows } from '../support/database/hold.ts'
import { startProxy } from '../support/database/proxy.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'
import { soon } from '../support/soon.ts'

it('defineSequence: keeps no reader waiting while many definitions wait for one that is locked', async () => {
  const { ask, send, target } = await startService()
  await ask('mutation { nextInSequence(name: "locked") { value } }')
  const holder = await holdRows(target, 'select * from sequence where id = 1 for update')
  const definitions = upTo(40).map((time) =>
    send(DEFINE, { name: 'locked', definition: { maxValue: 1000 + time } }),
  )
  let isOver = false
  const all = Promise.all(definitions).finally(() => {
    isOver = true
  })
  all.catch(() => undefined)
  await soon(
    'reads',
    inParallel(4, 200, () => ask('{ counter(name: "c") { value } }')),
  )
  expect(isOver).toBe(false)
  await holder.query('rollback')
  for (const { errors } of await all) expect(errors).toBeUndefined()
})

it('nextInSequence: issues by a new definition in another process from its answer on', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: 'g' }
  expect((await other.sequences.next(key, 5)).issued.lastValue).toBe(5)
  await one.sequences.define({ namespace: 'n', name: 's' }, { step: 10, maxValue: 20 })
  expect((await other.sequences.next(key, 1)).issued.value).toBe(15)
  await expect(other.sequences.next(key, 1)).rejects.toMatchObject({ code: 'SEQUENCE_EXHAUSTED' })
})

it('defineSequence: waits for numbers that are being issued, so that none is numbered by the old one after its answer', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: '' }
  await one.sequences.next(key, 1)
  const holder = await holdRows(target, 'select * from sequence_value for update')
  const waiting = async () => {
    const [row] = await query(
      target,
      // Not from innodb_trx, which is not renewed while several ask for it again and again.
      `select count(*) as waiting
         from information_schema.processlist
        where db = '${target.database}' and command = 'Query' and id <> connection_id()`,
    )
    return Number(row?.waiting)
  }
  const issued = one.sequences.next(key, 1)
  await expect.poll(waiting).toBe(1)
  let isDefined = false
  const defined = other.sequences.define(KEY, { format: 'new {value}' }).then(() => {
    isDefined = true
  })
  await expect.poll(async () => isDefined || (await waiting()) === 2).toBe(true)
  const mustBeNew = isDefined
  await holder.query('rollback')
  const numbers = await issued
  if (mustBeNew) expect(writerFor(numbers)(numbers.issued.value)).toBe('new 2')
  expect(numbers.issued.value).toBe(2)
  await defined
  const last = await one.sequences.next(key, 1)
  expect(writerFor(last)(last.issued.value)).toBe('new 3')
})

it('nextInSequence: issues every number once while its definition is changed again and again', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  const groups = ['a', 'b', '']
  let isOver = false
  let onIssued = () => {}
  // Each change waits for a number that was issued after it began: otherwise changes may leave no time between them.
  const definer = (async () => {
    for (let step = 1; !isOver; step = 1 + (step % 3)) {
      const isIssued = new Promise<void>((resolve) => {
        onIssued = resolve
      })
      await processes[step % 2]?.sequences.define({ namespace: 'n', name: 's' }, { step })
      await isIssued
    }
  })()
  const issued = await inParallel(30, 1000, async (index) => {
    const group = groups[index % 3] ?? ''
    const numbers = await processes[index % 2]?.sequences.next({ namespace: 'n', sequence: 's', group }, 1)
    onIssued()
    return `${group} ${numbers?.issued.value}`
  })
  isOver = true
  onIssued()
  await definer
  expect(new Set(issued).size).toBe(1000)
  for (const { faults } of processes) expect(faults).toEqual([])
})

it.each([
  [
    'changed',
    (sequences: Nth['sequences']) => sequences.define(KEY, { format: 'later {value}' }),
    'later {value}',
  ],
  ['deleted', (sequences: Nth['sequences']) => sequences.delete(KEY), undefined],
])(
  'defineSequence: makes a change once whose COMMIT was not answered, though the sequence was %s before that was noticed',
  async (_, meddle, format) => {
    const target = await freshDatabase()
    const { sequences } = openTestNth(target)
    await sequences.define(KEY, { startValue: 10, maxValue: 20 })
    const meddling: Promise<unknown>[] = []
    let isDown = false
    const cut = await startProxy(target, (statement) => {
      if (isDown) return 'is cut off'
      if (!statement.startsWith('commit')) return 'passes'
      isDown = true
      const meddled = meddle(sequences).finally(() => {
        isDown = false
      })
      meddling.push(meddled)
      return 'stays unanswered'
    })
    // Of a sequence as it is by default, it would be refused.
    const result = await openTestNth(cut).sequences.define(KEY, { minValue: 5, format: 'earlier {value}' })
    expect(result.definition).toMatchObject({ minValue: 5, maxValue: 20, format: 'earlier {value}' })
    expect(meddling.length).toBe(1)
    await Promise.all(meddling)
    expect((await sequences.read(KEY)).definition?.format).toBe(format)
  },
)
