import { keyText } from '../../../../core/counters/state.ts'
import type { SequenceDefinition } from '../../../../core/sequences/definition.ts'
import type { SequenceKey } from '../../../../core/sequences/store.ts'
import type { Connection } from '../../../connections/database.ts'
import { integer, list } from '../../../literals.ts'
import { type NamedRow, nameIn, select, selectByName } from '../../../select.ts'
import {
  SEQUENCE_COLUMNS,
  type SequenceDefinitionRow,
  sequenceDefinitionIn,
} from '../../../sequences/columns.ts'
import { findOrCreateSequence } from '../../../sequences/create.ts'
import { ChangedMeanwhileError, type ImportContext, locking } from '../context.ts'

export interface SequenceRow {
  id: number
  version: number
  definition: SequenceDefinition
}

/**
 * Locks the sequences of sequence groups, shared, so that their definitions don't change. Creates missing ones with the
 * defaults, as their first use does.
 */
export async function lockSequenceRows(
  context: ImportContext,
  entries: readonly { namespace: string; sequence: string }[],
): Promise<Map<string, SequenceRow>> {
  const { connection, now } = context
  const keys = new Map(
    entries.map(({ namespace, sequence: name }) => [keyText({ namespace, name }), { namespace, name }]),
  )
  const find = () => findSequences(connection, [...keys.values()])
  let found = await find()
  if (!context.isDryRun && found.length < keys.size) {
    const known = new Set(found.map((row) => keyText(nameIn(row))))
    const missing = [...keys].filter(([text]) => !known.has(text)).sort(([a], [b]) => (a < b ? -1 : 1))
    for (const [, key] of missing) await findOrCreateSequence(connection, key, now)
    found = await find()
  }
  if (found.length === 0) return new Map()
  const rows = await select<SequenceDefinitionRow & Record<'id' | 'version', number>>(
    connection,
    `select s.id, s.version, ${SEQUENCE_COLUMNS}
       from sequence s force index (primary)
      where s.id in (${list(found, ({ id }) => integer(id))})
      order by s.id ${locking(context, 'lock in share mode')}`,
  )
  if (rows.length < found.length) throw new ChangedMeanwhileError()
  const locked = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    found.flatMap((named) => {
      const row = locked.get(named.id)
      if (!row) return []
      const { id, version } = row
      return [[keyText(nameIn(named)), { id, version, definition: sequenceDefinitionIn(row) }] as const]
    }),
  )
}

/** The ids of the sequences that exist, in any order. */
export function findSequences(connection: Connection, keys: readonly SequenceKey[]) {
  const statement = selectByName(
    keys,
    's.name',
    (isNamed) =>
      `select n.name as namespace, s.name, s.id
         from namespace n
         join sequence s on s.namespace_id = n.id
        where ${isNamed}`,
  )
  return select<NamedRow & { id: number }>(connection, statement)
}
