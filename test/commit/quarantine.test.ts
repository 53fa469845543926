import { expect, it } from 'vitest'
import { Call } from '../../src/commit/call.ts'
import { openQuarantine } from '../../src/commit/groupCommit.ts'
import { upTo } from '../support/client/client.ts'

it('keeps every key that calls wait for, however many there are', () => {
  const quarantine = openQuarantine()
  const waiting = upTo(1500).map((index) => {
    const call = new Call(
      { operations: [], mode: 'one', missingRows: 'create' },
      0,
      Infinity,
      () => undefined,
    )
    quarantine.add(`key ${index}`, [call])
    return call
  })
  const found: Call[] = []
  for (let tried = quarantine.next(); tried; tried = quarantine.next()) found.push(...tried.calls)
  expect(found).toEqual(waiting)
})
