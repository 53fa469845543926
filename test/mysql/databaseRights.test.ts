import { describe, expect, it, onTestFinished } from 'vitest'
import { freshDatabase, query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

/** The rights that docs/security.md lists for an operator to grant. */
const RIGHTS = 'select, insert, update, delete'

describe('the rights of the database user', () => {
  it('serves as a user of the database with the documented rights only', async () => {
    const target = await freshDatabase()
    await query(
      target,
      "drop user if exists 'nth_least'@'%'",
      "create user 'nth_least'@'%' identified by 'secret'",
      `grant ${RIGHTS} on \`${target.database}\`.* to 'nth_least'@'%'`,
    )
    onTestFinished(() => query(target, "drop user 'nth_least'@'%'").then(() => undefined))
    const { ask, faults } = await startService({
      target: { ...target, user: 'nth_least', password: 'secret' },
    })
    const answer = await ask(`mutation {
    increment(name: "c") { value counter { value history(period: DAY) { value } } }
    many: incrementMany(changes: [{ name: "a" }, { name: "b" }, { name: "d" }, { name: "e" }]) { value }
    defineCounter(name: "c", definition: { slots: 2 }) { slots }
    defineSequence(name: "s", definition: { gapless: true }) { gapless }
    reserveInSequence(name: "s", idempotencyKey: "k") { value }
    resetAll(namespace: "default", to: 3) { resetCount }
    deleteSequence(name: "s") { name }
    deleteCounter(name: "a") { value }
    createApiKey(label: "x", grants: [{ scopes: [READ] }]) { key { id } }
  }`)
    expect(answer.increment).toEqual({ value: 1, counter: { value: 1, history: expect.any(Array) } })
    expect(
      await ask(
        '{ namespace { counters(orderBy: VALUE_DESC) { nodes { name } } sequences { nodes { name } } } }',
      ),
    ).toEqual({
      namespace: { counters: { nodes: expect.any(Array) }, sequences: { nodes: [] } },
    })
    expect(faults).toEqual([])
  })
})
