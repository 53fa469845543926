import { expect, it } from 'vitest'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { define, next, PARTS } from '../support/client/sequenceCalls.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { holdRows } from '../support/database/hold.ts'
import { startProxy } from '../support/database/proxy.ts'
import { defaults } from '../support/model/sequenceModel.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'
import { soon } from '../support/soon.ts'

it('deleteSequence: forgets a deleted sequence with its groups, its definition and its reservations', async () => {
  const service = await startService()
  await define(service, { gapless: true, format: 'G{value}' })
  const { reserveInSequence } = await service.ask('mutation { reserveInSequence(name: "s") { id } }')
  const { deleteSequence } = await service.ask(
    `mutation { deleteSequence(name: "s") { name ${PARTS} createdAt } }`,
  )
  expect(deleteSequence).toEqual({ name: 's', ...defaults, createdAt: null })
  const confirm = `mutation { confirmReservation(id: "${reserveInSequence.id}") { state } }`
  expect(await service.refusal(confirm)).toEqual({ code: 'NOT_FOUND' })
  expect((await service.ask(`{ node(id: "${reserveInSequence.id}") { id } }`)).node).toBeNull()
  expect((await next(service)).formatted).toBe('1')
  await service.ask('mutation { deleteSequence(name: "s") { id } again: deleteSequence(name: "s") { id } }')
})

it('confirmReservation: confirms no reservation of a deleted sequence as one of a new sequence with its name', async () => {
  const target = await freshDatabase()
  const other = openTestNth(target)
  const [key, group] = [
    { namespace: 'n', name: 's' },
    { namespace: 'n', sequence: 's', group: '' },
  ]
  const recreate = async () => {
    await other.sequences.delete(key)
    await other.sequences.define(key, { gapless: true })
    await other.sequences.reserve(group, 60)
  }
  // After the sequence group of the reservation was read, and before its row is.
  const proxied = await startProxy(target, async (statement) => {
    if (/g\.identity,.*where n\.name/s.test(statement)) await recreate()
    return 'passes' as const
  })
  const nth = openTestNth(proxied)
  await other.sequences.define(key, { gapless: true })
  const { token } = await other.sequences.reserve(group, 60)
  await expect(nth.sequences.release(token)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect((await other.sequences.reserve(group, 60)).value).toBe(2)
})

it('deleteSequence: restarts the numbers after a deletion, also in a process that has cached the sequence', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: '' }
  await other.sequences.next(key, 5)
  await one.sequences.delete({ namespace: 'n', name: 's' })
  expect((await other.sequences.next(key, 1)).issued.value).toBe(1)
})

it('nextInSequence: delays no other calls while a session locks a sequence', { tags: 'slow' }, async () => {
  const { ask, target, faults } = await startService()
  await ask('mutation { a: nextInSequence(name: "locked") { value } b: nextInSequence(name: "s") { value } }')
  // By its key, or it would lock the others, too.
  const [locked] = await query(target, "select id from sequence where name = 'locked'")
  const holder = await holdRows(target, `select * from sequence where id = ${locked?.id} for update`)
  const waiting = inParallel(8, 8, (index) =>
    ask('mutation($group: String!) { nextInSequence(name: "locked", group: $group) { value } }', {
      group: String(index % 4),
    }),
  )
  const others = inParallel(8, 200, async () => {
    const data = await ask('mutation { nextInSequence(name: "s") { value } increment(name: "c") { value } }')
    return data.nextInSequence.value as number
  })
  expect(sorted(await soon('numbers of another sequence', others))).toEqual(
    upTo(200).map((value) => value + 1),
  )
  await holder.query('rollback')
  expect((await soon('numbers of the locked one', waiting)).length).toBe(8)
  expect(faults).toEqual([])
})
