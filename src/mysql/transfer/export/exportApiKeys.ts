import type { Connection } from 'mysql2/promise'
import type { ApiKey } from '../../../core/access/apiKey.ts'
import type { ApiKeyEntry } from '../../../core/transfer/entries.ts'
import { listKeys } from '../../access/apiKeys.ts'
import { PAGE, pagesOf } from './pages.ts'

export async function* exportApiKeys(connection: Connection): AsyncGenerator<ApiKeyEntry> {
  const read = (after: ApiKey | undefined) =>
    listKeys(connection, { after: after?.id, limit: PAGE, fromEnd: false })
  for await (const page of pagesOf(read, PAGE)) {
    for (const key of page) yield { type: 'apiKey', ...key }
  }
}
