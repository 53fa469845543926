/** Something that was asked, and what became of it. */
export interface Event<State> {
  /** When it was asked, and when it was answered, by one clock. */
  from: number
  to: number
  /** Whether nobody knows if it took effect. */
  isDoubtful: boolean
  /** The state after it; undefined if the answer doesn't fit what it would have done there. */
  apply(state: State): State | undefined
}

/**
 * Whether events have an order that explains every answer and ends as is found, in which none comes before
 * another that was answered before it was asked: "Linearizability" (Herlihy and Wing, 1990), searched as Wing
 * and Gong do.
 */
export function isExplained<State>(
  events: readonly Event<State>[],
  initial: State,
  isFound: (state: State) => boolean,
): boolean {
  const seen = new Set<string>()
  return search(
    initial,
    events.toSorted((a, b) => a.to - b.to),
  )

  function search(state: State, open: readonly Event<State>[]): boolean {
    if (open.every(({ isDoubtful }) => isDoubtful) && isFound(state)) return true
    const place = `${open.map((event) => events.indexOf(event))} ${JSON.stringify(state)}`
    if (seen.has(place)) return false
    seen.add(place)
    const firstAnswer = Math.min(...open.filter(({ isDoubtful }) => !isDoubtful).map(({ to }) => to))
    const without = (event: Event<State>) => open.filter((other) => other !== event)
    const next = open.flatMap((event) => {
      const after = event.from < firstAnswer ? event.apply(state) : undefined
      return after === undefined ? [] : [{ event, after }]
    })
    // What fits here and changes nothing may as well come now: no other choice leaves more room.
    const idle = next.find(({ event, after }) => after === state && !event.isDoubtful)
    if (idle) return search(state, without(idle.event))
    return next.some(({ event, after }) => search(after, without(event)))
  }
}
