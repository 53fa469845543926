import { expect, it } from 'vitest'
import { endOfTurn } from '../src/http/connections/endOfTick.ts'

it('comes after all that was ready in the same turn, for all who wait together', async () => {
  const log: string[] = []
  const waiting: Promise<unknown>[] = []
  const arrive = (name: string) => {
    log.push(`${name} arrives`)
    waiting.push(endOfTurn().then(() => log.push(`${name} leaves`)))
  }
  for (const names of [
    ['a', 'b', 'c'],
    ['d', 'e'],
  ]) {
    // Timers that are due at once run like sockets that are read at once: promise jobs run between them.
    await new Promise<void>((resolve) => {
      for (const name of names) setTimeout(() => arrive(name), 1)
      setTimeout(resolve, 1)
      const due = Date.now() + 5
      while (Date.now() < due) {}
    })
    await Promise.all(waiting.splice(0))
    const expected = ['arrives', 'leaves'].flatMap((what) => names.map((name) => `${name} ${what}`))
    expect(log.splice(0)).toEqual(expected)
  }
})
