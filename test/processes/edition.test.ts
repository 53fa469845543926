import { expect, it } from 'vitest'
import { inParallel, sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'

it('sells exactly 100 of an edition of 100 to 500 buyers who come at once to two processes', async () => {
  const DATABASE_URL = urlOf(await freshDatabase())
  const processes = [await startNth({ DATABASE_URL }), await startNth({ DATABASE_URL })]
  const [first] = processes
  await first?.ask('mutation { defineCounter(name: "edition", definition: { maxValue: 100 }) { maxValue } }')
  const answers = await inParallel(500, 500, async (buyer) =>
    processes[buyer % 2]?.send('mutation { increment(name: "edition") { value } }'),
  )
  const numbers = answers.flatMap((answer) => answer?.data.increment?.value ?? [])
  const refused = answers.flatMap((answer) => answer?.errors ?? [])
  expect(sorted(numbers)).toEqual(upTo(100))
  expect(refused.map(({ extensions }) => extensions)).toEqual(
    upTo(400).map(() => ({ code: 'LIMIT_REACHED', limit: 100, value: 100 })),
  )
  expect(await first?.ask('{ counter(name: "edition") { value } }')).toEqual({ counter: { value: 100 } })
})
