// @module-tag slow
import { expect, it } from 'vitest'
import { openWire, postHead } from '../support/client/wire.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { startNth } from '../support/server/nthProcess.ts'

/** A process with a heap of 512 MB, and a way to send it a request of which only the size of the answer counts. */
async function startSmall() {
  const target = await freshDatabase()
  const nth = await startNth({ DATABASE_URL: urlOf(target), NODE_OPTIONS: '--max-old-space-size=512' })

  async function lengthOf(body: string): Promise<{ status: number; length: number }> {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${nth.url}/graphql`, { method: 'POST', headers, body })
    return { status: response.status, length: (await response.arrayBuffer()).byteLength }
  }

  return { ...nth, target, lengthOf }
}

const repeated = (count: number, text: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => text(index)).join(' ')

/** The longest names there are. */
const namespace = '😀'.repeat(191)
const names = Array.from({ length: 500 }, (_, index) => '😀'.repeat(187) + String(index).padStart(4, '0'))
const manyIds = repeated(9, (index) => `id${index}:id`)
const MB = 1_000_000

const requests: Record<string, string> = {
  'an alias of 500 kB on each of 500 items': JSON.stringify({
    query: `{ counters(names:${JSON.stringify(names)}){${'a'.repeat(MB / 2)}:value} }`,
  }),
  'aliases of 30 kB': JSON.stringify({
    query: `query($names:[String!]!) { counters(names:$names) { ${repeated(18, (index) => `a${index}${'a'.repeat(30_000)}:value`)} } }`,
    variables: { names },
  }),
  '320 000 empty objects that no document uses': JSON.stringify({
    query: '{ __typename }',
    variables: { unused: Array.from({ length: 320_000 }, () => ({})) },
  }),
  'a list in a list, 490 000 deep': `{"query":"{ __typename }","variables":{"unused":${'['.repeat(490_000)}${']'.repeat(490_000)}}}`,
  'a body that is a list of lists': `[${'[],'.repeat(330_000)}[]]`,
  'a number of 990 kB': JSON.stringify({
    query: `mutation { incrementBy(name:"c", delta:${'1'.repeat(990_000)}) { value } }`,
  }),
  'a text of 490 000 lines': JSON.stringify({
    query: `mutation { increment(name:"""${'\n'.repeat(490_000)}""") { value } }`,
  }),
  '90 000 ids of the longest names': JSON.stringify({
    query: `query($namespace:String!,$names:[String!]!) { ${repeated(20, (index) => `l${index}:counters(namespace:$namespace,names:$names){${manyIds}}`)} }`,
    variables: { namespace, names },
  }),
  '100 carts of 1 000 changes': JSON.stringify({
    query: `mutation($changes:[CounterDeltaInput!]!) { ${repeated(100, (index) => `c${index}:incrementMany(changes:$changes){value}`)} }`,
    variables: { changes: Array.from({ length: 1000 }, (_, index) => ({ name: `c${index}` })) },
  }),
  '9 000 fields that are not there': JSON.stringify({
    query: `{ ${repeated(9000, (index) => `a${index}`)} }`,
  }),
}

it('small heap: survives the worst requests of up to 1 MB with a heap of 512 MB', async () => {
  const { lengthOf, ask } = await startSmall()
  for (const [what, body] of Object.entries(requests)) {
    expect([what, Buffer.byteLength(body) <= MB]).toEqual([what, true])
    // The second time its document may be known, and compiled.
    for (let time = 0; time < 2; time += 1) {
      const answer = await lengthOf(body).catch((error) => error)
      expect([what, answer]).toEqual([what, { status: expect.any(Number), length: expect.any(Number) }])
    }
    expect((await ask('{ __typename }')).__typename).toBe('Query')
  }
})

it('small heap: survives many large requests at once with a heap of 512 MB, and does all or nothing of each', async () => {
  const { lengthOf, ask } = await startSmall()
  const junk = Array.from({ length: 19_000 }, () => ({ ['x'.repeat(40)]: 1 }))
  const body = JSON.stringify({ query: 'mutation { increment(name: "c") { value } }', variables: { junk } })
  const answers = await Promise.all(Array.from({ length: 80 }, () => lengthOf(body)))
  const done = answers.filter(({ status }) => status === 200).length
  expect(done).toBeGreaterThan(0)
  expect(answers.filter(({ status }) => status === 503)).toHaveLength(80 - done)
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(done)
})

it('small heap: survives hundreds of pipelined requests with hundreds of fields each, with a heap of 512 MB', async () => {
  const { url, ask, target } = await startSmall()
  const body = JSON.stringify({
    query: `mutation { ${repeated(880, (index) => `a${index}:increment(name:"${index}"){value}`)} }`,
  })
  const request = postHead(`Content-Length: ${body.length}`) + body
  const wires = Array.from({ length: 10 }, () => openWire(url))
  for (const wire of wires) wire.write(request.repeat(400))
  await Promise.all(wires.map((wire) => wire.received('"a879":{"value":')))
  expect((await ask('{ __typename }')).__typename).toBe('Query')
  for (const wire of wires) wire.reset()
  // What was begun is finished, and no more: every counter has the same number.
  const spread = 'select max(value) - min(value) as n from counter_value'
  await expect.poll(async () => (await query(target, spread))[0]?.n).toBe(0)
})
