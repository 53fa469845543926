import { describe, expect, it } from 'vitest'
import { JOBS, JOINED } from '../../src/mysql/slots.ts'
import { upTo } from '../support/client/client.ts'
import { freshDatabase, openTestDatabase, query } from '../support/database/database.ts'

describe('the pool', () => {
  it('refuses work that begins after it was closed, or goes on, as that of an unreachable database', async () => {
    const target = await freshDatabase()
    const database = openTestDatabase(target)
    const CLOSED = { code: 'UNAVAILABLE', message: expect.stringContaining('were closed') }
    let attempts = 0
    const begun = database.withRetry(JOBS, async (connection) => {
      attempts += 1
      await connection.select('select 1')
      await database.close()
      await query(target, 'select 2')
      return connection.select('select 3')
    })
    await expect(begun).rejects.toMatchObject(CLOSED)
    expect(attempts).toBe(1)
    await expect(database.select(JOBS, 'select 1')).rejects.toMatchObject(CLOSED)
  })

  it('has room again for as many requests once those before have failed', async () => {
    // A hundred may wait.
    const database = openTestDatabase(await freshDatabase())
    const fail = () =>
      database
        .withRetry(JOINED, async () => {
          throw new Error('broken')
        })
        .catch(({ code, message }) => code ?? message)
    const failures = await Promise.all(upTo(101).map(fail))
    expect(failures).toEqual([...Array(100).fill('broken'), 'UNAVAILABLE'])
    expect(await database.select(JOINED, 'select 1 as one')).toEqual([{ one: 1 }])
  })
})
