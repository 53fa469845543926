import type { CounterRow } from '../rows.ts'

/** What the attempts of one flush have shown that its next attempt must heed. */
export type Precautions = ReturnType<typeof openPrecautions>

export function openPrecautions(random: () => number) {
  const slots = new Map<string, number>()
  return {
    /** Keys of rows whose operations may be refused: they take the locked path. */
    lockedPath: new Set<string>(),
    /** Draws a slot of a counter: the same in all attempts, as another session may hold another slot locked. */
    slotOf({ key, definition }: CounterRow) {
      const slot = slots.get(key) ?? Math.floor(random() * definition.slots)
      slots.set(key, slot)
      return slot
    },
  }
}
