import { parseArgs } from 'node:util'
import { untilReady } from '../mysql/ready.ts'
import { migrate } from '../repository/migrate.ts'
import { notices, signal, withHosts } from './database.ts'

export const USAGE = `Usage: nth migrate [--help]

Applies the migrations that the database of DATABASE_URL lacks, or else the private one of NTH_DATA_DIR, as a start does. So
the servers of a database may have a user who may not change tables. It works while Nth runs, too.
`

export async function run(args: string[]): Promise<void> {
  parseArgs({ args })
  await withHosts(async (hosts) => {
    const applied = await migrate(await untilReady(hosts, { notices, signal }))
    console.log(applied.length > 0 ? `Applied ${applied.join(', ')}.` : 'All migrations are applied.')
  })
}
