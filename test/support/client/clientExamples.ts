import { openOnce } from '../openOnce.ts'
import { startService } from '../server/service.ts'
import { compile, type Files, filesOfPage, importable } from './clientsPage.ts'
import { RELAY_OPERATIONS } from './relayOperations.mjs'

export const TITLE = 'Bulldozer'

/** What each client's file has. */
export interface Example {
  buy(name: string, key: string): Promise<unknown>
}

/** Scalars have exactly these types, in what gql.tada and Relay make of the schema. */
const TYPES = `
import type { ResultOf } from 'gql.tada'
import type { relaySoldQuery } from './__generated__/relaySoldQuery.graphql.ts'
import { graphql } from './graphql.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

const READ = graphql('{ counter(name: "c") { value updatedAt } }')
type Tada = NonNullable<ResultOf<typeof READ>['counter']>
type Relay = NonNullable<relaySoldQuery['response']['counter']>
export const checks: [
  Same<Tada['value'], number>,
  Same<Tada['updatedAt'], string | null>,
  Same<Relay['value'], number>,
] = [true, true, true]
`

/** The code of the page, as it is there and compiled: once for all tests of a file. */
export function examples(): Promise<{ page: Files; compiled: Files }> {
  return openOnce(compileExamples)
}

async function compileExamples(): Promise<{ page: Files; compiled: Files }> {
  const page = await filesOfPage()
  const files = { ...page, 'types.ts': TYPES, 'relayOperations.ts': RELAY_OPERATIONS }
  return { page, compiled: await compile(files) }
}

/** The page's code, for a service of its own. */
export async function startExamples(changed: Files = {}) {
  const { compiled } = await examples()
  const service = await startService()
  const load = await importable({ ...compiled, ...changed }, service.url)
  return {
    ...service,
    // Each test knows what it asks for.
    load: <T>(name: string) => load(`${name}.js`) as Promise<T>,
  }
}

/** Files with a function `buy`, by the name of their client on the page. */
export const CLIENTS = {
  'graphql-request': 'graphqlRequest',
  'Apollo Client': 'apollo',
  urql: 'urql',
  'gql.tada': 'tada',
  Relay: 'relayOperations',
}
