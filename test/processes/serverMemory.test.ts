import { expect, it } from 'vitest'
import { defaultMemoryMb, logSizeMb } from '../../src/mysql/privateServer.ts'
import { migrate } from '../../src/repository/migrate.ts'
import { query } from '../support/database/database.ts'
import { privateServer, signalServer } from '../support/database/privateServer.ts'
import { openTestNth } from '../support/server/nth.ts'
import { dataDirectory } from '../support/server/nthProcess.ts'

const GB = 2 ** 30
const key = { namespace: 'n', name: 'c' }

it.each([
  [GB / 4, 128, 64],
  [2 * GB, 512, 64],
  [8 * GB, 2048, 256],
  [64 * GB, 4096, 512],
])(
  'NTH_DATABASE_MEMORY_MB: gives the private server a quarter of %d bytes, within limits',
  (usable, memory, log) => {
    expect([defaultMemoryMb(usable), logSizeMb(memory)]).toEqual([memory, log])
  },
)

it('NTH_DATABASE_MEMORY_MB: uses the memory that it is given, and keeps its data when that changes, also after a crash', {
  tags: 'slow',
}, async () => {
  const directory = await dataDirectory()
  for (const [round, memoryMb] of [128, 1024, 64].entries()) {
    const database = await privateServer(directory, undefined, memoryMb)
    const { target } = database
    await migrate(target)
    const [row] = await query(target, 'select @@innodb_buffer_pool_size / 1048576 as mb')
    expect(Number(row?.mb)).toBe(memoryMb)
    const { counters } = openTestNth(target)
    expect((await counters.incrementBy(key, 1)).value).toBe(round + 1)
    if (round === 0) await signalServer(directory, 'SIGKILL')
    await database.close()
  }
})
