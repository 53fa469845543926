import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { openHosts } from '../mysql/hosts.ts'
import { openDatabase } from '../mysql/pool.ts'
import { openTrustedDocuments, type TrustedDocuments } from '../repository/trustedDocuments.ts'
import { documentIdFault, plainDocumentId, type TrustedDocument } from '../rules/rights.ts'
import { withDatabase } from './database.ts'

export const USAGE = `Usage: nth documents add <manifest>
       nth documents list
       nth documents remove <id>

Adds, lists and removes trusted documents in the database of DATABASE_URL, or else the private one of NTH_DATA_DIR. It
works while Nth runs, too. Keys can be bound to documents (nth keys create --document), and with NTH_DOCUMENTS=trusted
callers without ADMIN may run no others.

A manifest is JSON as tools for clients write it: GraphQL Code Generator and Relay (an object with IDs and texts), or
Apollo (apollo-persisted-query-manifest). All documents must be valid; an ID can't get another text.
`

/** Documents per statement. */
const AT_ONCE = 50

/** `nth documents`. */
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
  })
}

async function add(path: string): Promise<void> {
  const found = documentsIn(await readFile(path, 'utf8'))
  // Imported now: it takes a second, which a mistake in the manifest need not wait for.
  const { schema } = await import('../graphql/schema.ts')
  const { documentFault } = await import('../graphql/trustedDocument.ts')
  const faults = found.flatMap(({ id, text }) => {
    const fault = documentIdFault(id)?.message ?? documentFault(schema, text)
    return fault ? [`Document ${JSON.stringify(id)} ${fault}`] : []
  })
  if (faults.length > 0) throw new Error([...faults, 'Nothing was added.'].join('\n'))
  await withDocuments(async (documents) => {
    for (let from = 0; from < found.length; from += AT_ONCE)
      await documents.add(found.slice(from, from + AT_ONCE))
  })
  console.log(`Added ${found.length} documents.`)
}

const texts = z.record(z.string(), z.string())
const apollo = z.object({
  format: z.literal('apollo-persisted-query-manifest'),
  operations: z.array(z.object({ id: z.string(), body: z.string() })),
})

/**
 * The documents of a manifest.
 *
 * @throws {Error} if it is none
 */
function documentsIn(json: string): Pick<TrustedDocument, 'id' | 'text'>[] {
  const manifest = parsed(json)
  const operations = apollo.safeParse(manifest).data?.operations
  const entries = operations?.map(({ id, body }) => [id, body] as const)
  const found = entries ?? Object.entries(texts.safeParse(manifest).data ?? {})
  if (found.length === 0)
    throw new Error('This is no manifest: it must be JSON with an ID and a text for each document.')
  return found.map(([id, text]) => ({ id: plainDocumentId(id), text }))
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

async function withDocuments(work: (documents: TrustedDocuments) => Promise<void>): Promise<void> {
  await withDatabase(async (target) => {
    const database = openDatabase(openHosts([target]), { timeLimitMs: 10_000, maxPending: 10 })
    try {
      await work(openTrustedDocuments(database, database))
    } finally {
      await database.close()
    }
  })
}

async function list(documents: TrustedDocuments): Promise<void> {
  for (let after: string | undefined; ; ) {
    const page = await documents.list({ after, limit: AT_ONCE, fromEnd: false })
    for (const { id, text } of page) console.log(`${id}  ${text.replace(/\s+/g, ' ').trim().slice(0, 80)}`)
    after = page.at(-1)?.id
    if (page.length < AT_ONCE) return
  }
}
