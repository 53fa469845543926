import { expect, it } from 'vitest'
import { gather } from '../src/core/gather.ts'
import { openNth } from '../src/core/nth.ts'
import { createApi } from '../src/http/yoga.ts'
import { openDatabase } from '../src/mysql/database.ts'
import { openStore } from '../src/mysql/store.ts'
import { upTo } from './support/client.ts'
import { freshDatabase } from './support/database.ts'
import { collectStatements } from './support/statements.ts'

it('waits for the other sockets of the same turn of the event loop', async () => {
  const batches: (readonly number[])[] = []
  const read = gather(String, async (keys: readonly number[]) => {
    batches.push(keys)
    return keys.map((key) => key * 2)
  })
  // Timers that are due at once run like sockets that are read at once: promise jobs run between them.
  const reads = upTo(20).map(
    (key) => new Promise<number>((resolve) => setTimeout(() => resolve(read(key)), 1)),
  )
  const due = Date.now() + 5
  while (Date.now() < due) {}
  expect(await Promise.all(reads)).toEqual(upTo(20).map((key) => key * 2))
  expect(batches).toEqual([upTo(20)])
})

it('reads each key of a batch once, and fails all who asked when the read fails', async () => {
  const batches: (readonly string[])[] = []
  const read = gather(String, async (keys: readonly string[]) => {
    batches.push(keys)
    if (keys.includes('bad')) throw new Error('no')
    return keys.map((key) => key.toUpperCase())
  })
  expect(await Promise.all(['a', 'b', 'a'].map(read))).toEqual(['A', 'B', 'A'])
  expect(batches).toEqual([['a', 'b']])
  const settled = await Promise.allSettled(['a', 'bad'].map(read))
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})

it('reads what many requests ask for in the same tick with one statement', async () => {
  const database = openDatabase(await freshDatabase())
  try {
    const nth = openNth(openStore(database))
    const api = createApi({ nth, onFault: console.error, access: { allowedOrigins: [], onLoopback: true } })
    await nth.counters.incrementBy({ namespace: 'default', name: 'n7' }, 7)
    const statements = collectStatements()
    const answers = await Promise.all(
      upTo(50).map(async (index) => {
        const response = await api.fetch('http://localhost/graphql', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({
            query: `{ counter(name: "n${index}") { value } counters(names: ["n7"]) { value } }`,
          }),
        })
        return (await response.json()).data
      }),
    )
    expect(statements).toHaveLength(1)
    expect(answers.map(({ counter }) => counter.value)).toEqual(
      upTo(50).map((index) => (index === 7 ? 7 : 0)),
    )
    expect(answers.every(({ counters }) => counters[0].value === 7)).toBe(true)
  } finally {
    await database.close()
  }
})
