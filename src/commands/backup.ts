import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { withDatabase } from './database.ts'
import { writeFile } from './files.ts'
import { jsonlTexts } from './formats.ts'
import { EXPORTED, withSnapshot } from './snapshot.ts'

export const USAGE = `Usage: nth backup <directory>

Backs up the database of DATABASE_URL, or else the private one of NTH_DATA_DIR, as of one instant into a new or empty
directory. It works while Nth runs, too. The file has what nth export writes, trusted documents, hashes of API keys, and
results of idempotency keys. nth restore of this version or a later one reads it into any database.
`

export const BACKUP_FILE = 'nth.jsonl'

export async function run(args: string[]): Promise<void> {
  const [directory, ...rest] = parseArgs({ args, allowPositionals: true }).positionals
  if (directory === undefined) throw new Error('Give the directory of the backup; see --help.')
  if (rest.length > 0) throw new Error(`Unexpected argument "${rest[0]}".`)
  // Only its owner may read it.
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if ((await readdir(directory)).length > 0)
    throw new Error(`The directory ${directory} is not empty. Give each backup a directory of its own.`)
  await withDatabase(async (target) => {
    const at = await withSnapshot(target, async ({ at, hasSubjects, entries, laterRevision }) => {
      const backedUp = entries(...EXPORTED, 'trustedDocuments', 'apiKeys', 'idempotencyKeys')
      const texts = jsonlTexts(at, hasSubjects, backedUp, await laterRevision())
      await writeFile(join(directory, BACKUP_FILE), texts, 0o600)
      return at
    })
    console.log(`Backed up as of ${at.toISOString()} into ${directory}.`)
  })
}
