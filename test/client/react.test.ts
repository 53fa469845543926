import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { type Count, type CountOptions, useCount } from 'nth-counters/react'
import { createElement } from 'react'
import { renderToString } from 'react-dom/server'
import { expect, expectTypeOf, it } from 'vitest'

/** What a server shows of a counter. */
function rendered(options: CountOptions): Count | undefined {
  let count: Count | undefined
  function Counter() {
    count = useCount(options)
    return null
  }
  renderToString(createElement(Counter))
  return count
}

it('useCount: shows the number that a server knows, or none, and connects nowhere there', () => {
  const loading = { value: null, valueIn: null, mine: null, status: 'loading', error: null }
  expect(rendered({ name: 'c' })).toMatchObject(loading)
  expect(rendered({ name: 'c', initial: 0 })).toMatchObject({ ...loading, value: 0 })
  expect(rendered({ name: 'c', initial: 7, period: 'MONTH' })).toMatchObject({ ...loading, value: 7 })
  expectTypeOf<Count['mine']>().toEqualTypeOf<number | null>()
})

it('react.js: adds less than 1.5 kB to the client, of which it has no copy', async () => {
  const file = await readFile(fileURLToPath(import.meta.resolve('nth-counters/react')), 'utf8')
  expect(gzipSync(file).length).toBeLessThan(1_500)
  const imports = [...file.matchAll(/from"([^"]+)"/g)].map(([, name]) => name)
  expect(imports.toSorted()).toEqual(['nth-counters/client', 'react'])
})
