import { Session } from 'node:inspector/promises'
import { expect, it } from 'vitest'
import { startService } from '../support/server/service.ts'

const TYPES = ['application/json', 'application/graphql-response+json', 'text/event-stream']

/** Returns a function that returns how often functions of these names were called since its last call. */
async function countCalls(...names: string[]) {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const functions = result.flatMap((script) => script.functions)
    return names.map((name) =>
      functions
        .filter(({ functionName }) => functionName === name)
        .reduce((sum, { ranges }) => sum + (ranges[0]?.count ?? 0), 0),
    )
  }
}

async function startAnswering() {
  const { url } = await startService()
  const takeCalls = await countCalls('parseBounded', 'validateBounded')

  /** An answer to a request, and how often its document was parsed and validated. */
  return async (params: object, accept = 'application/json') => {
    await takeCalls()
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept },
      body: JSON.stringify(params),
    })
    const { status, headers } = response
    const text = await response.text()
    const [parsed, validated] = await takeCalls()
    return {
      answer: { status, type: headers.get('content-type'), cache: headers.get('cache-control'), text },
      id: headers.get('x-request-id'),
      parsed,
      validated,
    }
  }
}

it.each([
  ['that cannot be parsed', 'query A {', 0],
  ['of too many tokens', `query A { ${'a '.repeat(10_001)} }`, 0],
  ['with unknown fields', 'query A {\n  nope\n  counter(name: "c") { vlaue } }', 1],
  ['with a long alias', `query A { ${'a'.repeat(256)}: __typename }`, 1],
])(
  'refused documents: one %s is answered again as at first, without looking at it',
  async (_, query, validated) => {
    for (const type of TYPES) {
      const ask = await startAnswering()
      const first = await ask({ query }, type)
      expect(first).toMatchObject({ parsed: 1, validated })
      expect(first.answer.text).toContain('"errors"')
      const again = [
        await ask({ query }, type),
        await ask({ query, variables: { a: 1 }, operationName: null }, type),
      ]
      for (const { answer, id, ...counts } of again) {
        expect(answer).toEqual(first.answer)
        expect(id).not.toBe(first.id)
        expect(counts).toEqual({ parsed: 0, validated: 0 })
      }
      const named = await ask({ query, operationName: 'A' }, type)
      expect(named).toMatchObject({ answer: first.answer, parsed: 1 })
      expect(await ask({ query, operationName: 'A' }, type)).toMatchObject({
        answer: first.answer,
        parsed: 0,
      })
    }
  },
)

it('refused documents: are looked at again for another operation', async () => {
  const ask = await startAnswering()
  const query = 'query A { nope } query B { nope }'
  const code = async (params: object) =>
    JSON.parse((await ask({ query, ...params })).answer.text).errors[0].extensions.code
  for (const _ of [1, 2]) {
    expect(await code({ operationName: 'A' })).toBe('GRAPHQL_VALIDATION_FAILED')
    expect(await code({})).toBe('OPERATION_RESOLUTION_FAILURE')
    expect(await code({ operationName: 'C' })).toBe('OPERATION_RESOLUTION_FAILURE')
    expect(await code({ operationName: 'A', variables: [] })).toBe('BAD_REQUEST')
  }
})

it('refused documents: are not those whose variables are wrong', async () => {
  const ask = await startAnswering()
  const query = 'query($name: String!) { counter(name: $name) { value } }'
  for (const _ of [1, 2, 3]) {
    expect((await ask({ query })).answer.text).toContain('BAD_USER_INPUT')
    expect((await ask({ query, variables: { name: 'c' } })).answer.text).toContain('"value":0')
  }
})

it('refused documents: are looked at again if their errors are long', async () => {
  const ask = await startAnswering()
  const params = { query: `{ ${'a'.repeat(20_000)} }` }
  const first = await ask(params)
  expect(await ask(params)).toMatchObject({ answer: first.answer, parsed: 1, validated: 1 })
})
