import { setTimeout as pause } from 'node:timers/promises'
import type { Nth } from '../../core/nth.ts'
import { nameFault } from '../../rules/names.ts'

/** How long a page waits for the lookup of a book. */
const PATIENCE_MS = 500

/** A book in a limited edition. */
const edition = { title: 'Red Horse Hill, signed', copies: 100 }

/** Titles that the shop sells. */
export const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
]

/** The same as a module for the pages: shop and server must use the same books. */
export const booksScript = `// The books of the shop: their titles, and the one in a limited edition.

export const titles = ${JSON.stringify(titles, null, 2)}

export const edition = ${JSON.stringify(edition)}
`

/** Whether the shop sells a book with this title, or a counter with that name was ever written or defined. */
export async function isBook(title: string, { counters }: Pick<Nth, 'counters'>): Promise<boolean> {
  if (titles.includes(title)) return true
  if (nameFault(title)) return false
  const found = counters.read({ namespace: 'booksales', name: title }).then(
    ({ createdAt }) => createdAt !== null,
    () => true,
  )
  // If that times out or fails, the page itself reports that its numbers can't be read.
  return Promise.race([found, pause(PATIENCE_MS, true, { ref: false })])
}
