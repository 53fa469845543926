import { built } from '../built.ts'
import { PAGE_SIZE, pageFrom } from '../leaderboard.ts'
import type { Leading } from '../workloads.ts'
import type { Request } from './drive.ts'
import { bytesOf, pageOf } from './requests.ts'
import type { Scenario } from './scenario.ts'

/** Clients that read the first page of a leaderboard, or one in its middle. */
export async function openLeading(url: URL, { board }: Leading): Promise<Scenario> {
  // A client would have the cursor from the page before; from the first page on that is too far to go.
  const { leaderboardCursors } = await built<typeof import('../../src/graphql/lists.ts')>('graphql/lists.js')
  const middle = board.size / 2
  // No id is below 0: after all that have this value.
  const after = leaderboardCursors.VALUE_DESC.encode({ sortedBy: middle + 1, id: 0 })

  function reading(highest: number, cursor?: string): Request {
    const bytes = bytesOf(pageOf(board.namespace, cursor), url)
    const page = JSON.stringify(pageFrom(highest, board))
    return { bytes: () => bytes, changes: 0, take: (body) => takePage(page, body) }
  }

  const first = [reading(board.size), reading(middle, after)]
  return {
    first,
    pick: () => first[Math.floor(Math.random() * first.length)],
    // Nobody changes them, and each page was compared when it came.
    check: async () => {},
  }
}

/** Exactly these, by name and value and in this order. */
function takePage(page: string, body: string): void {
  const { data, errors } = JSON.parse(body)
  if (errors || JSON.stringify(data?.namespace?.counters?.nodes) !== page) {
    throw new Error(`It answered a page of ${PAGE_SIZE} that is ${page} with ${body}`)
  }
}
