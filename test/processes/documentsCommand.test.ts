import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { run } from '../../src/commands/documents.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query } from '../support/database/database.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { failureOf, runCommand } from '../support/server/transfer.ts'

async function fileWith(content: unknown): Promise<string> {
  const path = join(await temporaryDirectory(), 'manifest.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const READ = 'query Sold { counter(name: "c") { value } }'
const HASH = hash('sha256', READ)

it('nth documents: adds the manifests of tools for clients, lists and removes', async () => {
  const target = await freshDatabase()
  const documents = (...args: string[]) => runCommand(target, ['documents', ...args])
  // GraphQL Code Generator and Relay; a prefix is left out.
  const added = await documents('add', await fileWith({ [HASH]: READ, md5: '{ __typename }' }))
  expect(added).toMatchObject({ code: 0, output: 'Added 2 documents.\n' })
  const apollo = {
    format: 'apollo-persisted-query-manifest',
    version: 1,
    operations: [
      { id: `sha256:${HASH}`, name: 'Sold', type: 'query', body: READ },
      { id: 'buy', name: 'Buy', type: 'mutation', body: 'mutation Buy { increment(name: "c") { value } }' },
    ],
  }
  expect(await documents('add', await fileWith(apollo))).toMatchObject({ code: 0 })
  expect((await documents('remove', 'md5')).output).toBe('Removed md5.\n')
  expect((await documents('list')).output).toBe(
    `${HASH}  ${READ}\nbuy  mutation Buy { increment(name: "c") { value } }\n`,
  )
})

it('nth documents: says what is wrong with a manifest or a command, and adds nothing', async () => {
  const target = await freshDatabase()
  await query(target, `insert into trusted_document values ('a', '${READ}', now())`)
  const none = 'The manifest must be JSON with an ID and a text for each document.'
  for (const [args, message] of [
    [['add'], 'Give the manifest; see --help.'],
    [['remove'], 'Give the ID of the document; see --help.'],
    [['remove', 'b'], 'There is no trusted document "b".'],
    [['drop'], 'Unknown command "drop"; see --help.'],
    [['list', 'a'], 'Unexpected argument "a".'],
    [
      ['add', await fileWith('{')],
      expect.stringMatching(/^The manifest is not valid JSON: .+ position 1.*\.$/),
    ],
    [['add', await fileWith('{}')], none],
    [['add', await fileWith({ b: 5 })], none],
    [
      ['add', await fileWith({ [`sha256:${HASH}`]: '{ __typename }' })],
      `Document "sha256:${HASH}" is not the SHA-256 of its text.\nNothing was added.`,
    ],
    [['add', await fileWith([READ])], none],
    [
      ['add', await fileWith({ b: '{ nope }', 'c d': READ, e: '{' })],
      `Document "b" is not valid: Cannot query field "nope" on type "Query". Did you mean "node" or "nodes"?.
Document "c d" must have 1 to 255 printable ASCII characters without spaces.
Document "e" is not valid: Syntax Error: Expected Name, found <EOF>.
Nothing was added.`,
    ],
    [
      // More than one statement has, all of which are undone.
      [
        'add',
        await fileWith(
          Object.fromEntries([...upTo(120).map(String), 'a'].map((id) => [id, '{ __typename }'])),
        ),
      ],
      'The ID "a" is that of another text. Nothing was changed.',
    ],
  ] as const)
    expect([args, await failureOf(run, args, target)]).toEqual([args, message])
  expect(await query(target, 'select count(*) as count from trusted_document')).toEqual([{ count: 1 }])
})
