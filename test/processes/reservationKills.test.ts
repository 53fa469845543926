// @module-tag random
import { expect, it } from 'vitest'
import { upTo } from '../support/client/client.ts'
import {
  CONFIRM,
  expectNoGap,
  GAPLESS,
  KEY,
  RELEASE,
  RESERVE,
  settleAll,
} from '../support/client/invoices.ts'
import { freshDatabase, urlOf } from '../support/database/database.ts'
import { createRandom, runSize } from '../support/random.ts'
import { openTestNth } from '../support/server/nth.ts'
import { startNth } from '../support/server/nthProcess.ts'

it('reserveInSequence: leaves no gap behind 40 callers whose server is killed again and again', {
  tags: 'slow',
}, async () => {
  const target = await freshDatabase()
  const DATABASE_URL = urlOf(target)
  let server = startNth({ DATABASE_URL })
  await (await server).ask(GAPLESS)
  const random = createRandom()
  const confirmed = new Set<number>()
  let isOver = false
  let answers = 0

  async function call(): Promise<void> {
    const { ask } = await server
    const { reserveInSequence: held } = await ask(RESERVE, { ttl: 1 })
    const draw = random.fraction()
    if (draw < 0.6) {
      const { confirmReservation } = await ask(CONFIRM, { id: held.id })
      expect(confirmed.has(confirmReservation.value)).toBe(false)
      confirmed.add(confirmReservation.value)
    } else if (draw < 0.8) await ask(RELEASE, { id: held.id })
    answers++
  }

  const refused = new Set<string>()
  const callers = upTo(40).map(async () => {
    // A call ends with its server; and a number may expire before it is confirmed.
    while (!isOver) await call().catch((error) => refused.add(codeIn(error)))
  })
  const more = runSize(200, 400)
  const kills = runSize(1, 2)
  for (const kill of upTo(kills)) {
    await expect.poll(() => answers).toBeGreaterThan(kill * more)
    const { child, exited } = await server
    child.kill('SIGKILL')
    // Callers wait for the next one, rather than call one that has ended without a pause.
    server = exited.then(() => startNth({ DATABASE_URL }))
  }
  await expect.poll(() => answers).toBeGreaterThan((kills + 1) * more)
  isOver = true
  await Promise.all(callers)
  expect(
    [...refused].filter((code) => !['fetch failed', 'terminated', 'RESERVATION_CLOSED'].includes(code)),
  ).toEqual([])
  const numbers = await expectNoGap(target)
  expect(numbers.confirmed).toEqual(expect.arrayContaining([...confirmed]))
  await settleAll(target, openTestNth(target).sequences, KEY)
})

function codeIn(error: Error): string {
  return /"code":"(\w+)"/.exec(error.message)?.[1] ?? error.message
}
