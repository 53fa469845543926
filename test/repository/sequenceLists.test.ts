import { expect, it } from 'vitest'
import { listSequenceGroups } from '../../src/repository/sequenceGroups.ts'
import { upTo } from '../support/client/client.ts'
import { filledUp, freshDatabase, query } from '../support/database/database.ts'
import { startProxy } from '../support/database/proxy.ts'
import { readsOf } from '../support/database/rowsRead.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startService } from '../support/server/service.ts'

const GROUPS = `query($first: Int, $after: String, $last: Int, $before: String, $prefix: String! = "") {
  sequence(name: "ticket") {
    groups(first: $first, after: $after, last: $last, before: $before, prefix: $prefix) {
      nodes { name lastValue nextValue lastFormatted updatedAt sequence { name } }
      edges { cursor node { id } }
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    }
  }
}`

const NAMES = ['', 'A', 'B', 'a', 'ä', '😀']

async function startBoards() {
  const service = await startService()
  for (const [index, group] of NAMES.toReversed().entries()) {
    await service.ask(
      'mutation($group: String!, $count: Int!) { nextInSequence(name: "ticket", group: $group, count: $count) { value } }',
      { group, count: index + 1 },
    )
  }
  const groups = async (page: object) => (await service.ask(GROUPS, { ...page })).sequence.groups
  return { ...service, groups }
}

it('sequence groups: are listed by name, also the one without, forward and backward', async () => {
  const { groups } = await startBoards()
  const all = await groups({})
  expect(all.nodes.map(({ name }: { name: string }) => name)).toEqual(NAMES)
  expect(all.nodes[1]).toMatchObject({
    name: 'A',
    lastValue: 5,
    nextValue: 6,
    lastFormatted: 'A-5',
    sequence: { name: 'ticket' },
  })
  for (const [size, order] of [
    [1, 'first'],
    [2, 'last'],
  ] as const) {
    const seen: string[] = []
    let cursor: string | undefined
    for (let more = true; more; ) {
      const page = order === 'first' ? { first: size, after: cursor } : { last: size, before: cursor }
      const { nodes, pageInfo } = await groups(page)
      const names = nodes.map(({ name }: { name: string }) => name)
      if (order === 'first') seen.push(...names)
      else seen.unshift(...names)
      more = order === 'first' ? pageInfo.hasNextPage : pageInfo.hasPreviousPage
      cursor = order === 'first' ? pageInfo.endCursor : pageInfo.startCursor
      expect(cursor).not.toBe('')
    }
    expect(seen).toEqual(NAMES)
  }
  expect((await groups({ prefix: 'a' })).nodes).toHaveLength(1)
})

it.each([
  [{ first: 501 }, { argument: 'first', limit: 500 }],
  [{ first: 1, last: 1 }, { argument: 'last' }],
  [{ after: 'x' }, { argument: 'after' }],
  [{ before: Buffer.from('A').toString('base64url') }, { argument: 'before' }],
  [{ prefix: 'a\n' }, { argument: 'prefix' }],
])('sequence groups: the page %j is refused', async (page, details) => {
  const { refusal } = await startBoards()
  expect(await refusal(GROUPS, page)).toEqual({ code: 'BAD_USER_INPUT', ...details })
})

it('sequences: are listed where they are used or defined', async () => {
  const { ask } = await startService()
  await ask(`mutation {
    b: nextInSequence(name: "b") { value }
    c: nextInSequence(name: "c", group: "g") { value }
    a: defineSequence(name: "a", definition: {}) { id }
    other: nextInSequence(name: "d", namespace: "other") { value }
    restarted: restartSequence(name: "e", nextValue: 9) { name }
    deleted: nextInSequence(name: "f") { value }
    f: deleteSequence(name: "f") { id }
  }`)
  const query =
    'query($first: Int, $prefix: String! = "") { namespace { sequences(first: $first, prefix: $prefix) { nodes { name group { lastValue } } pageInfo { hasNextPage } } } }'
  const { namespace } = await ask(query)
  expect(namespace.sequences.nodes).toEqual([
    { name: 'a', group: { lastValue: null } },
    { name: 'b', group: { lastValue: 1 } },
    { name: 'c', group: { lastValue: null } },
  ])
  expect((await ask(query, { first: 2 })).namespace.sequences).toMatchObject({
    nodes: [{ name: 'a' }, { name: 'b' }],
    pageInfo: { hasNextPage: true },
  })
  expect((await ask(query, { prefix: 'c' })).namespace.sequences.nodes).toHaveLength(1)
})

it('sequence groups: no more than a page of 50 000 is read, wherever it lies', async () => {
  const target = await freshDatabase({ isReused: false })
  const { sequences } = openTestNth(target)
  const sequence = { namespace: 'n', name: 's' }
  await sequences.next({ namespace: 'n', sequence: 's', group: '#' }, 1)
  await query(
    target,
    ...filledUp(50_000),
    `insert into sequence_group (id, sequence_id, name, is_used, latest_period_key, version, time_zone)
     select 10 + n, 1, lpad(n, 6, '0'), true, 0, 1, 'UTC' from filled`,
    'insert into sequence_value (group_id, period_key, value, updated_at) select 10 + n, 0, n, utc_timestamp(3) from filled',
    'drop table filled',
    'analyze table namespace, sequence, sequence_group, sequence_value',
  )
  for (const place of [
    {},
    { fromEnd: true },
    { after: '025000' },
    { before: '025000', fromEnd: true },
    { prefix: '0499' },
  ]) {
    const page = { prefix: '', limit: 10, fromEnd: false, ...place }
    const reads = await readsOf(target, async (connection) =>
      expect((await listSequenceGroups(connection, sequence, page, new Date())).items).toHaveLength(10),
    )
    expect({ place, reads: reads < 200 ? 'few' : reads }).toEqual({ place, reads: 'few' })
  }
  const list = (page: object) =>
    sequences.listSequenceGroups(sequence, { prefix: '', limit: 3, fromEnd: false, ...page })
  const namesOf = (items: { group: string }[]) => items.map(({ group }) => group)
  expect(namesOf((await list({})).items)).toEqual(['#', ...upTo(2).map((n) => String(n).padStart(6, '0'))])
  // The first page of a search ends before the only name that it is for.
  expect(await list({ contains: '49999' })).toEqual({ items: [], searchedTo: '009999' })
  const { items, searchedTo } = await list({ contains: '49999', after: '045000' })
  expect([namesOf(items), searchedTo]).toEqual([['049999'], undefined])
})

it('sequence groups: the last and the next number are those of one moment', async () => {
  const target = await freshDatabase()
  const { sequences } = openTestNth(target)
  const key = { namespace: 'n', sequence: 's', group: 'g' }
  await sequences.restart(key, 5)
  let reads = 0
  // Somebody takes a number before each statement but the first.
  const proxied = await startProxy(target, async (statement) => {
    if (statement.includes('sequence_value') && reads++ > 0) await sequences.next(key, 1)
    return 'passes' as const
  })
  const { lastValue, nextValue } = await openTestNth(proxied).sequences.readSequenceGroup(key)
  expect([lastValue, nextValue]).toEqual([5, 6])
  expect(reads).toBeGreaterThan(1)
})
