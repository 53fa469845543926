import type { Call } from './call.ts'
import { MissingRow, type NamedOperation, type RowOperation } from './request.ts'

/**
 * Looks up the rows of a call: from the cache, or else from the database, where missing ones may be created. Synchronous
 * if all are cached.
 *
 * @throws {MissingRow} if a row doesn't exist and must not be created
 */
export function resolveRows({ request }: Call, now: () => Date): RowOperation[] | Promise<RowOperation[]> {
  const { operations, missingRows } = request
  const cached: RowOperation[] = []
  for (const named of operations) {
    const operation = named.cached()
    if (operation) cached.push(operation)
  }
  if (cached.length === operations.length) return cached
  return Promise.all(operations.map(resolve))

  async function resolve(named: NamedOperation): Promise<RowOperation> {
    const operation =
      named.cached() ?? (await (missingRows === 'create' ? named.loadOrCreate(now()) : named.load()))
    if (!operation) throw new MissingRow()
    return operation
  }
}
