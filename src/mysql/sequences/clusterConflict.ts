import { NthError } from '../../core/errors.ts'
import type { Connection } from '../connections/database.ts'
import type { Variable } from '../connections/identity.ts'
import { integer } from '../literals.ts'
import { select } from '../select.ts'

/** Maximum sequence groups of a sequence that is redefined on a cluster: one transaction writes all of them. */
const MOST_GROUPS = 10_000

/**
 * Makes a change of a definition conflict with flushes on other nodes of a cluster, where this node's locks have no
 * effect: writes the rows in which they issue numbers.
 */
export async function conflictOnCluster(connection: Connection, id: number): Promise<void> {
  const [clustered] = await select<Variable>(connection, "show variables like 'wsrep_on'")
  if (clustered?.Value !== 'ON') return
  const [counted] = await select<{ groups_found: number }>(
    connection,
    `select count(*) as groups_found
       from (select id from sequence_group where sequence_id = ${integer(id)} limit ${MOST_GROUPS + 1}) some`,
  )
  if (counted && counted.groups_found > MOST_GROUPS) {
    throw new NthError(
      'BAD_USER_INPUT',
      `This sequence has more than ${MOST_GROUPS} sequence groups: on a cluster its definition can no longer be changed. Use a new sequence for new ones. Nothing was changed.`,
      { argument: 'definition', limit: MOST_GROUPS },
    )
  }
  await connection.query(
    `update sequence_group g
       join sequence_value v on v.group_id = g.id
        set v.definitions = v.definitions + 1
      where g.sequence_id = ${integer(id)}
        and (v.period_key = g.latest_period_key or v.updated_at >= utc_timestamp() - interval 2 day)`,
  )
}
