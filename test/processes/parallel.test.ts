// @module-tag random
import { expect, it } from 'vitest'
import { type Client, inParallel, sorted, upTo } from '../support/client/client.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { runSize } from '../support/random.ts'
import { startNth } from '../support/server/nthProcess.ts'

/** Two server processes on one database. */
async function twoServers(): Promise<[Client, Client]> {
  const DATABASE_URL = urlOf(await freshDatabase({ migrated: false }))
  // At the same moment, so that they migrate side by side, too.
  return Promise.all([startNth({ DATABASE_URL }), startNth({ DATABASE_URL })])
}

const TICKETS = 10 * runSize(10, 50)
const ROUNDS = runSize(10, 30)

it(`gives 2 boards x 10 callers exactly the numbers 1 to ${TICKETS} each, through one server or two`, async () => {
  const servers = await twoServers()
  for (const [sequence, clients] of [
    ['one', servers.slice(0, 1)],
    ['two', servers],
  ] as const) {
    const boards = await Promise.all(
      ['NINJA', 'ROCK'].map((group) =>
        inParallel(10, TICKETS, async (index) => {
          const client = clients[index % clients.length] as Client
          const { nextInSequence } = await client.ask(
            `mutation { nextInSequence(name: "${sequence}", group: "${group}") { value formatted } }`,
          )
          expect(nextInSequence.formatted).toBe(`${group}-${nextInSequence.value}`)
          return nextInSequence.value as number
        }),
      ),
    )
    for (const numbers of boards) expect(sorted(numbers)).toEqual(upTo(TICKETS))
  }
})

it(`makes a counter that 20 callers hit at once, ${ROUNDS} times over, without a failure or a lost hit`, {
  tags: 'slow',
}, async () => {
  const [first, second] = await twoServers()
  for (let round = 0; round < ROUNDS; round++) {
    const clients = round % 2 ? [first, second] : [first]
    const values = await Promise.all(
      upTo(20).map(async (caller) => {
        const client = clients[caller % clients.length] as Client
        const namespace = `namespace ${round}`
        const data = await client.ask(
          'mutation($namespace: String!) { increment(name: "new", namespace: $namespace) { value } nextInSequence(name: "new", namespace: $namespace) { value } }',
          { namespace },
        )
        return [data.increment.value, data.nextInSequence.value] as [number, number]
      }),
    )
    expect(sorted(values.map(([value]) => value))).toEqual(upTo(20))
    expect(sorted(values.map(([, value]) => value))).toEqual(upTo(20))
  }
})
