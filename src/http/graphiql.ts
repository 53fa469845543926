import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { renderGraphiQL } from '@graphql-yoga/render-graphiql'
import { type Page, pageOf } from './pages.ts'

/** What a newcomer finds in GraphiQL: operations to be run one after another, on what the shop sells. */
export const tabs: string[] = [
  `# Welcome to Nth. Run the tabs from left to right: each shows its numbers in the shop, too.
mutation BuyACopy {
  increment(name: "Bulldozer", namespace: "booksales") {
    value # your number: you are buyer number …
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
    value # one database read for all; 0 if never written
    updatedAt
  }
}`,
  `# The shop shows more of this: follow the title of a book.
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
  `# All or nothing: if one change is refused, none is made. The key makes it safe to run again: it counts once.
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
  `# Three copies only: run it four times. The fourth buyer gets LIMIT_REACHED.
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
  `# Each group has numbers of its own: try another board.
mutation NumberATicket {
  nextInSequence(name: "ticket", group: "MYBOARD") {
    formatted
    value
  }
}`,
  `# A number while the invoice is written: confirm it by its id, or it is dealt again.
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
  `query ListWhatIsThere {
  namespace(name: "booksales") {
    counters(orderBy: VALUE_DESC, first: 10) { # a leaderboard
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
  `mutation StartAgain {
  reset(name: "Bulldozer", to: 0, namespace: "booksales") {
    value
    previousValue
  }
}`,
]

/**
 * GraphiQL's tabs slide into place when the page opens, and until one has been touched it jumps away from
 * under the pointer at the first click, which is lost.
 */
const STYLE = '<style>.graphiql-tab { transform: none !important; }</style>'

let page: Promise<Page> | undefined

/** GraphiQL in one page without any outside address. It is 9 MB of text, so it is made once and sent compressed. */
export function graphiqlPage(): Promise<Page> {
  page ??= makePage()
  return page
}

async function makePage(): Promise<Page> {
  // The renderer hands these options on to GraphiQL, whose `defaultTabs` its own type doesn't list.
  const options = { title: 'GraphiQL · Nth', defaultTabs: tabs.map((query) => ({ query })) }
  const body = Buffer.from(renderGraphiQL(options).replace('</head>', `${STYLE}</head>`))
  return pageOf({ type: 'text/html; charset=utf-8', body, gzipped: await promisify(gzip)(body) })
}
