import { expect, it } from 'vitest'
import { startService } from '../support/server/service.ts'

const increment = (alias: string) => `mutation { ${alias}: increment(name: "c") { value } }`

it('takes aliases of up to 255 characters', async () => {
  const { ask } = await startService()
  const alias = 'a'.repeat(255)
  expect((await ask(increment(alias)))[alias]).toEqual({ value: 1 })
})

it('refuses longer ones before it counts, as an answer would repeat them for each item of a list', async () => {
  const { refusal, send, ask } = await startService()
  expect(await refusal(increment('a'.repeat(256)))).toEqual({ code: 'GRAPHQL_VALIDATION_FAILED' })
  const { errors } = await send(`{ namespace { ${'a'.repeat(9000)}: name } }`)
  expect(errors?.[0]?.message).toBe('An alias may have at most 255 characters; one has 9000.')
  expect((await ask('{ counter(name: "c") { value } }')).counter.value).toBe(0)
})
