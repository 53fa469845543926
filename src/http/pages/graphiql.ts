import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { PAGES, type Page, pageOf } from './pages.ts'

/** Prepared tabs in GraphiQL: operations to run in order, on the books of the shop. */
export const tabs: string[] = [
  `# Welcome to Nth! Run the tabs
# from left to right. The shop
# shows what they count, too.
mutation BuyACopy {
  increment(
    name: "Bulldozer"
    namespace: "booksales"
  ) {
    value # you are buyer number …
    previousValue
  }
}`,
  `mutation BuyTwelve {
  incrementBy(name: "Bulldozer", delta: 12, namespace: "booksales") {
    value
    previousValue
    appliedDelta
  }
}`,
  `query ReadSeveral {
  counters(names: ["Bulldozer", "Red Horse Hill", "not sold yet"], namespace: "booksales") {
    name
    value # 0 if never written
    updatedAt
  }
}`,
  `# More in the shop: follow the title of a book.
mutation BuyTheNthOfTheMonth {
  increment(name: "Bulldozer", namespace: "booksales") {
    value
    valueIn(period: MONTH) # your number in this month
    counter {
      history(period: DAY, last: 7) {
        start
        value
      }
    }
  }
}`,
  `# All or nothing: if one change is refused,
# none is made. The key makes it safe to run
# again: it counts once.
mutation BuyACart {
  incrementMany(
    namespace: "booksales"
    changes: [{ name: "Bulldozer" }, { name: "Red Horse Hill", delta: 2 }]
    idempotencyKey: "my first cart"
  ) {
    value
    replayed
    counter {
      name
    }
  }
}`,
  `# Three copies only: run it four times.
# The fourth buyer gets LIMIT_REACHED.
mutation SellALimitedEdition {
  defineCounter(name: "Bulldozer, signed", definition: { maxValue: 3 }, namespace: "booksales") {
    maxValue
  }
  increment(name: "Bulldozer, signed", namespace: "booksales") {
    value
    counter {
      maxValue
    }
  }
}`,
  `# Each group has its own numbers: try another.
mutation NumberATicket {
  nextInSequence(name: "ticket", group: "MYBOARD") {
    formatted
    value
  }
}`,
  `# A number is held while the invoice is written:
# confirm it by its id, or the next one gets it.
mutation ReserveAnInvoiceNumber {
  defineSequence(
    name: "invoice"
    namespace: "shop"
    definition: { gapless: true, format: "INV-{yyyy}-{value:5}", restartEvery: YEAR }
  ) {
    gapless
  }
  reserveInSequence(name: "invoice", namespace: "shop", ttlSeconds: 60) {
    id
    formatted
    state
    expiresAt
  }
}`,
  `# Sets a counter that nothing else uses.
mutation SetAValue {
  reset(name: "tries", to: 42) {
    value
    previousValue
  }
}`,
  `query ListWhatIsThere {
  namespace(name: "booksales") {
    # a leaderboard
    counters(orderBy: VALUE_DESC, first: 10) {
      nodes {
        name
        value
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
}`,
]

let page: Promise<Page> | undefined

/** GraphiQL as one page without external URLs. It has 9 MB of text, so it is rendered once and sent compressed. */
export function graphiqlPage(): Promise<Page> {
  page ??= makePage().catch((error) => {
    // The next request tries again.
    page = undefined
    throw error
  })
  return page
}

/** In a thread of its own: loading the renderer takes 140 ms, and rendering 50, which would hold up other requests. */
async function makePage(): Promise<Page> {
  const options = { title: 'GraphiQL · Nth', defaultTabs: tabs.map((query) => ({ query })) }
  const worker = new Worker(new URL('graphiqlRenderer.mjs', PAGES), { workerData: options })
  const [{ body, gzipped }] = await once(worker, 'message')
  return pageOf({ type: 'text/html; charset=utf-8', body: Buffer.from(body), gzipped: Buffer.from(gzipped) })
}
