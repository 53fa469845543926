import { expect, it } from 'vitest'
import { inParallel, upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { collectStatements } from '../support/database/statements.ts'
import { openTestNth } from '../support/server/nth.ts'

const key = (name: string) => ({ namespace: 'n', name })

it('the creation of rows: looks up and creates all names of one tick together', async () => {
  const { counters } = openTestNth(await freshDatabase())
  const statements = collectStatements()
  await counters.incrementMany(
    'n',
    upTo(200).map((index) => ({ name: `c${index}`, delta: 1 })),
  )
  expect(statements.filter((text) => /insert into counter /.test(text))).toHaveLength(1)
  expect(statements.length).toBeLessThan(15)
})

it('the creation of rows: creates each name once, though two processes use it at the same time among others', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  await inParallel(20, 200, async (index) => {
    const names = upTo(30).map((place) => `c${(index * 7 + place * 3) % 300}`)
    await processes[index % 2]?.counters.incrementMany(
      'n',
      names.map((name) => ({ name, delta: 1 })),
    )
  })
  const [sum] = await query(target, 'select count(*) as counters, sum(value) as value from counter_value')
  expect([sum?.counters, Number(sum?.value)]).toEqual([300, 6000])
  expect(processes.flatMap(({ faults }) => faults)).toEqual([])
})

it('the creation of rows: creates the other names when a trigger refuses one', async () => {
  const target = await freshDatabase()
  const { counters } = openTestNth(target)
  await query(
    target,
    `create trigger refuse before insert on counter for each row
     if new.name = 'bad' then signal sqlstate '45000' set message_text = 'no'; end if`,
  )
  const results = ['a', 'bad', 'b'].map((name) =>
    counters.incrementBy(key(name), 1).then(
      ({ value }) => value,
      () => 'refused',
    ),
  )
  expect(await Promise.all(results)).toEqual([1, 'refused', 1])
})
