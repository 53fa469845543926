// @module-tag random
import fc from 'fast-check'
import { parse } from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { compilableFields } from '../../src/http/documents.ts'
import { anyOperation, SET_BACK } from '../support/client/anyOperation.ts'
import { meetsRareCases, runSize } from '../support/random.ts'
import { startFront } from '../support/server/front.ts'

const OPERATIONS = runSize(8, 100)

it('compiled operations: have the answers of the executor, whatever they select', async () => {
  const { post, ask, faults } = await startFront()
  const [namespaces = '', ...rest] = SET_BACK
  const setBack = async () => {
    await ask(namespaces)
    await Promise.all(rest.map((query) => ask(query)))
  }
  let compiled = 0
  const seen = { data: 0, partly: 0, refused: 0 }
  await setBack()
  await fc.assert(
    fc.asyncProperty(fc.gen(), async (draw) => {
      const { query, variables } = anyOperation(draw)
      if (compilableFields(schema, parse(query)) > 0) compiled += 1
      const answers: Answer[] = []
      // A document is executed as it is when it is new, and compiled from then on.
      for (const text of [query, query, query, `${query} #`]) {
        const { status, body } = await post(JSON.stringify({ query: text, variables }))
        if (query.startsWith('mutation')) await setBack()
        answers.push({ status, ...withoutTimes(body) })
        if (body.data == null) seen.refused += 1
        else seen[body.errors ? 'partly' : 'data'] += 1
      }
      const [first, ...others] = answers.map(comparable)
      for (const answer of others)
        expect({ query, variables, ...answer }).toEqual({ query, variables, ...first })
    }),
    { numRuns: OPERATIONS, endOnFailure: true },
  )

  expect(faults).toEqual([])
  if (!meetsRareCases()) return
  for (const [what, times] of Object.entries({ compiled, ...seen })) {
    expect([what, times > OPERATIONS / 6]).toEqual([what, true])
  }
})

interface Answer {
  status: number
  data?: unknown
  errors: string[]
}

/**
 * An answer without what depends on what is read first: of several errors that leave the same place empty, one is
 * enough, whichever is reported. The error of a place that is itself empty is always reported.
 */
function comparable({ errors, ...answer }: Answer) {
  const reported = errors.map((error) => {
    const path: (string | number)[] = JSON.parse(error).path ?? []
    let value = answer.data
    let depth = 0
    // What is there of an answer is an object, or a list.
    while (value != null && depth < path.length)
      value = (value as Record<string, unknown>)[path[depth++] ?? '']
    return depth === path.length ? error : `nothing at ${path.slice(0, depth).join()}`
  })
  return { ...answer, errors: [...new Set(reported)].toSorted() }
}

/** An answer without its instants and revisions, and with its errors in one order: fields are done at once. */
function withoutTimes(body: { errors?: { path?: unknown }[] }) {
  const { errors = [], ...rest } = JSON.parse(
    JSON.stringify(body)
      .replace(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"then"')
      .replace(/\b\d{15}\b/g, '0')
      .replace(/"(Cj4|Cjw|CnQ)[\w-]+"/g, '"a place by value or change"')
      .replace(/"(SG9sZD[op]|Cmg)[\w-]+"/g, '"a new hold, or a place of one"'),
  )
  return { ...rest, errors: errors.map((error: unknown) => JSON.stringify(error)).toSorted() }
}

it('compiled operations: may have any alias, also one that JavaScript reserves', async () => {
  const { post } = await startFront()
  const names = ['then', 'constructor', 'hasOwnProperty', 'toString', 'valueOf', '__proto__', 'length']
  const selections = names.flatMap((_, index) => [names.slice(0, index + 1), names.slice(index)])
  for (const some of [...selections, ['then'], ['then']]) {
    const query = `{ ${some.map((name) => `${name}: __typename`).join(' ')} }`
    const { status, body } = await post(JSON.stringify({ query }))
    expect([status, JSON.stringify(body.data)]).toEqual([200, `{${some.map((name) => `"${name}":"Query"`)}}`])
  }
})
