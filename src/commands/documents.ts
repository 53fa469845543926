import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { openTrustedDocuments, type TrustedDocuments } from '../repository/trustedDocuments.ts'
import {
  documentIdFault,
  hashFault,
  type NewDocument,
  plainDocumentId,
  type TrustedDocument,
} from '../rules/trustedDocument.ts'
import { audit, withPool } from './database.ts'
import { itemsOf } from './paging.ts'

export const USAGE = `Usage: nth documents add <manifest>
       nth documents list
       nth documents remove <id>

Adds, lists and removes trusted documents in the database of DATABASE_URL, or else the private one of NTH_DATA_DIR. It
works while Nth runs, too. Keys can be bound to documents (nth keys create --document), and with NTH_DOCUMENTS=trusted
only keys with ADMIN may run others.

A manifest is JSON as tools for clients write it: GraphQL Code Generator and Relay (an object with IDs and texts), or
Apollo (apollo-persisted-query-manifest). All documents must be valid; an ID can't get another text.
`

const PAGE = 50

export async function run(args: string[]): Promise<void> {
  const [command, argument, ...rest] = parseArgs({ args, allowPositionals: true }).positionals
  if (command === undefined) return void process.stdout.write(USAGE)
  const unexpected = command === 'list' ? argument : rest[0]
  if (unexpected !== undefined) throw new Error(`Unexpected argument "${unexpected}".`)
  if (command === 'list') return withDocuments(list)
  if (command !== 'add' && command !== 'remove') throw new Error(`Unknown command "${command}"; see --help.`)
  if (argument === undefined)
    throw new Error(`Give the ${command === 'add' ? 'manifest' : 'ID of the document'}; see --help.`)
  if (command === 'add') return add(argument)
  await withDocuments(async (documents) => {
    const { id } = await documents.remove(plainDocumentId(argument))
    console.log(`Removed ${id}.`)
    audit({ field: 'nth documents remove', name: id })
  })
}

async function add(path: string): Promise<void> {
  const added = documentsIn(await readFile(path, 'utf8'))
  // Imported now: it takes a second, which a mistake in the manifest need not wait for.
  const { schema } = await import('../graphql/schema.ts')
  const { documentFault } = await import('../graphql/documentLimits.ts')
  const faults = added.flatMap(({ id, text }) => {
    const fault = documentIdFault(id)?.message ?? documentFault(schema, text)
    return fault ? [`Document ${JSON.stringify(id)} ${fault}.`] : []
  })
  if (faults.length > 0) throw new Error([...faults, 'Nothing was added.'].join('\n'))
  await withDocuments(async (documents) => void (await documents.add(added)))
  console.log(`Added ${added.length} ${added.length === 1 ? 'document' : 'documents'}.`)
  audit({ field: 'nth documents add', count: added.length })
}

const texts = z.record(z.string(), z.string())
const apollo = z.object({
  format: z.literal('apollo-persisted-query-manifest'),
  operations: z.array(z.object({ id: z.string(), body: z.string() })),
})

/** @throws {Error} if it is no manifest */
function documentsIn(json: string): NewDocument[] {
  let manifest: unknown
  try {
    manifest = JSON.parse(json)
  } catch (cause) {
    throw new Error(`The manifest is not valid JSON: ${(cause as Error).message}.`, { cause })
  }
  const operations = apollo.safeParse(manifest).data?.operations
  const entries = operations?.map(({ id, body }) => [id, body] as const)
  const documents = entries ?? Object.entries(texts.safeParse(manifest).data ?? {})
  if (documents.length === 0)
    throw new Error('The manifest must be JSON with an ID and a text for each document.')
  const faults = documents.flatMap(([id, text]) => {
    const fault = hashFault(id, text)
    return fault ? [`Document ${JSON.stringify(id)} ${fault}.`] : []
  })
  if (faults.length > 0) throw new Error([...faults, 'Nothing was added.'].join('\n'))
  return documents.map(([id, text]) => ({ id: plainDocumentId(id), text }))
}

function withDocuments(work: (documents: TrustedDocuments) => Promise<void>): Promise<void> {
  return withPool((database) => work(openTrustedDocuments(database, database)))
}

async function list(documents: TrustedDocuments): Promise<void> {
  for await (const { id, text } of itemsOf<TrustedDocument>(documents.list, PAGE))
    console.log(`${id}  ${text.replace(/\s+/g, ' ').trim().slice(0, 80)}`)
}
