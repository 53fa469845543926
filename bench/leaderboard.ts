/** A namespace of ranked counters, whose values are the whole numbers from 1 to its size, each of them once. */
export interface Leaderboard {
  namespace: string
  /** A power of ten. */
  size: number
}

export interface Leader {
  name: string
  value: number
}

export const PAGE_SIZE = 10

/** What stands before a leader's number in its name. */
export const LEADER = 'leader-'

/** From one leader's value to the next one's. Prime to every size, so that the values are strewn over the names. */
export const STRIDE = 7919

/** A page of a leaderboard: those with this value and the next lower ones, in order. */
export function pageFrom(highest: number, { size }: Leaderboard): Leader[] {
  const page: Leader[] = []
  for (let number = 0; number < size; number++) {
    const value = ((number * STRIDE) % size) + 1
    if (value <= highest && value > highest - PAGE_SIZE) page.push({ name: `${LEADER}${number}`, value })
  }
  return page.sort((a, b) => b.value - a.value)
}
