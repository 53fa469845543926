import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Target } from '../../src/mysql/settings.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Runs `nth documents` on a database. */
function runDocuments(target: Target, ...args: string[]) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: urlOf(target) }
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(
      process.execPath,
      ['dist/bundle/main.js', 'documents', ...args],
      { cwd: ROOT, env },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    )
  })
}

async function fileWith(content: unknown): Promise<string> {
  const path = join(await temporaryDirectory(), 'manifest.json')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const READ = 'query Sold { counter(name: "c") { value } }'
const HASH = hash('sha256', READ)

it('adds the manifests of tools for clients, lists and removes', async () => {
  const target = await freshDatabase()
  // GraphQL Code Generator and Relay; a prefix is left out.
  const added = await runDocuments(target, 'add', await fileWith({ [HASH]: READ, md5: '{ __typename }' }))
  expect(added).toMatchObject({ code: 0, stdout: 'Added 2 documents.\n' })
  const apollo = {
    format: 'apollo-persisted-query-manifest',
    version: 1,
    operations: [
      { id: `sha256:${HASH}`, name: 'Sold', type: 'query', body: READ },
      { id: 'buy', name: 'Buy', type: 'mutation', body: 'mutation Buy { increment(name: "c") { value } }' },
    ],
  }
  expect(await runDocuments(target, 'add', await fileWith(apollo))).toMatchObject({ code: 0 })
  expect((await runDocuments(target, 'remove', 'md5')).stdout).toBe('Removed md5.\n')
  expect((await runDocuments(target, 'list')).stdout).toBe(
    `${HASH}  ${READ}\nbuy  mutation Buy { increment(name: "c") { value } }\n`,
  )
  const help = await runDocuments(target)
  expect(help.stdout).toContain('Usage: nth documents add <manifest>')
})

it('says what is wrong with a manifest or a command, and adds nothing', async () => {
  const target = await freshDatabase()
  await runDocuments(target, 'add', await fileWith({ a: READ }))
  const none = 'The manifest must be JSON with an ID and a text for each document.\n'
  for (const [args, message] of [
    [['add'], 'Give the manifest; see --help.\n'],
    [['remove'], 'Give the ID of the document; see --help.\n'],
    [['remove', 'b'], 'There is no trusted document "b".\n'],
    [['drop'], 'Unknown command "drop"; see --help.\n'],
    [['list', 'a'], 'Unexpected argument "a".\n'],
    [
      ['add', await fileWith('{')],
      expect.stringMatching(/^The manifest is not valid JSON: .+ position 1.*\.\n$/),
    ],
    [['add', await fileWith('{}')], none],
    [['add', await fileWith({ b: 5 })], none],
    [
      ['add', await fileWith({ [`sha256:${HASH}`]: '{ __typename }' })],
      `Document "sha256:${HASH}" is not the SHA-256 of its text.\nNothing was added.\n`,
    ],
    [['add', await fileWith([READ])], none],
    [
      ['add', await fileWith({ b: '{ nope }', 'c d': READ, e: '{' })],
      `Document "b" is not valid: Cannot query field "nope" on type "Query". Did you mean "node" or "nodes"?.
Document "c d" must have 1 to 255 printable ASCII characters without spaces.
Document "e" is not valid: Syntax Error: Expected Name, found <EOF>.
Nothing was added.
`,
    ],
    [
      // More than one statement has, all of which are undone.
      [
        'add',
        await fileWith(
          Object.fromEntries([...upTo(120).map(String), 'a'].map((id) => [id, '{ __typename }'])),
        ),
      ],
      'The ID "a" is that of another text. Nothing was changed.\n',
    ],
  ] as const) {
    const { code, stderr } = await runDocuments(target, ...args)
    expect([args, code, stderr]).toEqual([args, 1, message])
  }
  expect((await runDocuments(target, 'list')).stdout).toBe(`a  ${READ}\n`)
  expect(await query(target, 'select count(*) as count from trusted_document')).toEqual([{ count: 1 }])
})
