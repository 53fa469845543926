/** An operation and its outcome. */
export interface Event<State> {
  /** When it was called, and when it was answered, by one clock. */
  from: number
  to: number
  /** Whether nobody knows if it took effect. */
  isDoubtful: boolean
  /**
   * The state after it; undefined if the answer doesn't fit what it would have done there. The same object if it has no
   * effect, wherever it fits.
   */
  apply(state: State): State | undefined
}

/**
 * Whether events have an order that explains every answer and ends as is found, in which none comes before
 * another that was answered before it was called: "Linearizability" (Herlihy and Wing, 1990), searched as Wing
 * and Gong do.
 */
export function isExplained<State>(
  events: readonly Event<State>[],
  initial: State,
  isFound: (state: State) => boolean,
): boolean {
  // A state is met by many ways: it is written out once, and each event tried on it once.
  const places = new Map<string, Place<State>>()
  const seen = new Set<string>()
  return search(
    placeOf(initial),
    events.map((_, index) => index).toSorted((a, b) => eventAt(a).to - eventAt(b).to),
  )

  function search(place: Place<State>, open: readonly number[]): boolean {
    const certain = open.filter((index) => !eventAt(index).isDoubtful)
    if (certain.length === 0 && isFound(place.state)) return true
    const node = `${place.id} ${open}`
    if (seen.has(node)) return false
    seen.add(node)
    const firstAnswer = Math.min(...certain.map((index) => eventAt(index).to))
    const next = open.flatMap((index) => {
      const move = eventAt(index).from < firstAnswer ? moveBy(index, place) : undefined
      return move ? [{ index, ...move }] : []
    })
    const without = (index: number) => open.filter((other) => other !== index)
    // What fits here and has no effect may as well come now: no other choice leaves more room.
    const idle = next.find(({ index, isIdle }) => isIdle && !eventAt(index).isDoubtful)
    if (idle) return search(place, without(idle.index))
    return next.some(({ index, after }) => search(after, without(index)))
  }

  function moveBy(index: number, place: Place<State>): Move<State> | null {
    const known = place.moves.get(index)
    if (known !== undefined) return known
    const state = eventAt(index).apply(place.state)
    const move = state === undefined ? null : { after: placeOf(state), isIdle: state === place.state }
    place.moves.set(index, move)
    return move
  }

  function placeOf(state: State): Place<State> {
    const text = JSON.stringify(state)
    const place = places.get(text) ?? { id: places.size, state, moves: new Map() }
    places.set(text, place)
    return place
  }

  function eventAt(index: number): Event<State> {
    const event = events[index]
    if (!event) throw new Error(`There is no event ${index}`)
    return event
  }
}

interface Place<State> {
  id: number
  state: State
  /** By the index of an event; null: it doesn't fit. */
  moves: Map<number, Move<State> | null>
}

interface Move<State> {
  after: Place<State>
  isIdle: boolean
}
