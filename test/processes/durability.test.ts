import { expect, it } from 'vitest'
import { Hosts } from '../../src/mysql/hosts.ts'
import { durabilityRisks, untilReady } from '../../src/mysql/ready.ts'
import { SILENT } from '../../src/operations/log.ts'
import { query } from '../support/database/database.ts'
import { privateServerWith } from '../support/database/privateServer.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const { signal } = new AbortController()

it('durability: says at the start what a server can lose, and refuses one that could not take a change', async () => {
  const options = ['--log-bin=bin', '--server-id=1', '--sync-binlog=0']
  const target = { ...(await privateServerWith(await temporaryDirectory(), options)), database: 'nth' }
  const server = { ...target, database: 'mysql' }

  async function noticesWith(...settings: string[]): Promise<string[]> {
    await query(server, ...settings.map((setting) => `set global ${setting}`))
    const lines: string[] = []
    await untilReady(new Hosts([target]), {
      notices: { ...SILENT, info: (line) => lines.push(line) },
      signal,
    })
    return lines
  }

  const unsynced = expect.stringMatching(
    /log_bin = ON and sync_binlog = 0: if its machine fails, changes that .* not yet written .* Set sync_binlog = 1\.$/,
  )
  expect(await noticesWith()).toEqual([unsynced])
  expect(await noticesWith('innodb_flush_log_at_trx_commit = 0')).toEqual([
    expect.stringMatching(/innodb_flush_log_at_trx_commit = 0: if it crashes, changes of the last second/),
    unsynced,
  ])
  expect(await noticesWith('innodb_flush_log_at_trx_commit = 2', 'sync_binlog = 7')).toEqual([
    expect.stringMatching(
      /innodb_flush_log_at_trx_commit = 2: if its machine fails, changes of the last second/,
    ),
    expect.stringMatching(/sync_binlog = 7: if its machine fails, changes of the last 7 group commits/),
  ])
  expect(await noticesWith('innodb_flush_log_at_trx_commit = 1', 'sync_binlog = 1')).toEqual([])
  const [row] = await query(server, 'select version() as version')
  // Stricter than 1, and MariaDB's alone.
  if (String(row?.version).includes('MariaDB')) {
    expect(await noticesWith('innodb_flush_log_at_trx_commit = 3')).toEqual([])
  }
  await expect(noticesWith("binlog_format = 'STATEMENT'")).rejects.toThrow(
    /binlog_format = STATEMENT.*error 1665.*Set binlog_format = ROW/,
  )
  expect(await noticesWith("binlog_format = 'MIXED'")).toEqual([])
})

it('durability: says of a server without a binary log only what is its own, and on a cluster what all nodes can lose', () => {
  const careless = { innodb_flush_log_at_trx_commit: '2', sync_binlog: '0', binlog_format: 'STATEMENT' }
  const risksOf = (others: Record<string, string>) =>
    durabilityRisks(new Map(Object.entries({ ...careless, ...others })))
  expect(risksOf({ log_bin: 'OFF' })).toEqual([
    expect.stringContaining('innodb_flush_log_at_trx_commit = 2: if its machine fails'),
  ])
  expect(risksOf({ log_bin: 'ON', wsrep_on: 'ON' })).toEqual([
    expect.stringContaining('if the machines of all nodes fail at once'),
    expect.stringContaining('if the machines of all nodes fail at once'),
  ])
})
