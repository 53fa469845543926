import { expect, it } from 'vitest'
import { openNth } from '../src/core/nth.ts'
import { createApi } from '../src/http/yoga.ts'
import { openDatabase } from '../src/mysql/database.ts'
import { openStore } from '../src/mysql/store.ts'
import { upTo } from './support/client.ts'
import { freshDatabase } from './support/database.ts'
import { collectStatements } from './support/statements.ts'

it('reads what many requests ask for in the same tick with one statement', async () => {
  const database = openDatabase(await freshDatabase())
  try {
    const nth = openNth(openStore(database))
    const api = createApi({ nth, onFault: console.error, allowedOrigins: [], onLoopback: true })
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
