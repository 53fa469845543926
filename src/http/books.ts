import { setTimeout as pause } from 'node:timers/promises'
import { nameFault } from '../core/names.ts'
import type { Nth } from '../core/nth.ts'

/** How long a page waits to know whether there is such a book. */
const PATIENCE_MS = 500

/** A book of which there are only so many copies. */
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

/** The same as a module for the pages: shop and server must agree on the books. */
export const booksScript = `// The books of the shop: their titles, and the one of which there are only so many copies.

export const titles = ${JSON.stringify(titles, null, 2)}

export const edition = ${JSON.stringify(edition)}
`

/** Whether the shop sells a book of this title, or a counter of that name was ever written or defined. */
export async function isBook(title: string, { counters }: Pick<Nth, 'counters'>): Promise<boolean> {
  if (titles.includes(title)) return true
  if (nameFault(title)) return false
  const found = counters.read({ namespace: 'booksales', name: title }).then(
    ({ createdAt }) => createdAt !== null,
    () => true,
  )
  // Where that takes long or fails, the page itself reports that its numbers can't be read.
  return Promise.race([found, pause(PATIENCE_MS, true, { ref: false })])
}
