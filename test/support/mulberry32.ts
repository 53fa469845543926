export interface Random {
  /** From 0 up to 1, without 1. */
  fraction(): number
  /** An integer from 0 up to a limit, without it. */
  below(limit: number): number
  /** Some items of a list, in random order. */
  sample<Item>(items: readonly Item[], count: number): Item[]
}

/** Random numbers that a seed repeats: mulberry32 (Tommy Ettinger, 2017). */
export function mulberry32(seed: number): Random {
  let state = seed | 0
  function fraction(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    fraction,
    below: (limit) => Math.floor(fraction() * limit),
    sample: (items, count) =>
      items
        .map((item) => ({ item, place: fraction() }))
        .toSorted((a, b) => a.place - b.place)
        .slice(0, count)
        .map(({ item }) => item),
  }
}
