import { expect, it } from 'vitest'
import { freshDatabase, query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

it('holds, confirms and releases', async () => {
  const { ask, send } = await startService()
  await ask('mutation { defineCounter(name: "c", definition: { maxValue: 3 }) { name } }')
  const hold = async (delta: number) =>
    (await send(`mutation { hold(changes: [{ name: "c", delta: ${delta} }]) { id state expiresAt deltas { delta counter { value held } } } }`))
  const first = await hold(2)
  console.log(JSON.stringify(first))
  console.log(JSON.stringify(await hold(2)))
  const id = first.data.hold.id
  console.log(JSON.stringify(await send(`{ counter(name: "c") { value held heldDown holds { nodes { id state deltas { delta } } } } }`)))
  console.log(JSON.stringify(await send(`mutation { incrementBy(name: "c", delta: 2) { value } }`)))
  console.log(JSON.stringify(await send(`mutation { confirmHold(id: "${id}") { value previousValue appliedDelta replayed counter { value held revision } } }`)))
  console.log(JSON.stringify(await send(`mutation { confirmHold(id: "${id}") { value previousValue appliedDelta replayed counter { value held revision} } }`)))
  console.log(JSON.stringify(await send(`mutation { releaseHold(id: "${id}") { state } }`)))
  console.log(JSON.stringify(await hold(1)))
  console.log(JSON.stringify(await send(`{ node(id: "${id}") { ... on Hold { state expiresAt deltas { delta counter { name } } } } }`)))
})
