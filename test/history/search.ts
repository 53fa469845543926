/** What happened at one instant after it was sent and before it was answered; or, if it is uncertain, perhaps never. */
export interface Step<State> {
  sentAt: number
  /** Of an uncertain step: when it has surely happened, or can have no effect any more. Infinity: never. */
  answeredAt: number
  /** Uncertain steps with the same text do the same: it doesn't matter which of them happened. Undefined: certain. */
  uncertain?: string | undefined
  /** The states after it: none if its answer doesn't fit there; the same object if it fits and has no effect. */
  apply(state: State): readonly State[]
  /** Forgets what no later step needs, as soon as this one is answered. */
  forget?: ((state: State) => State) | undefined
}

export type Verdict<State> =
  | { kind: 'linearizable'; ends: readonly State[] }
  /** No order explains all answers up to that of the step. `before`: the possible states before that answer. */
  | { kind: 'refused'; step: number; before: readonly State[] }
  /** The search took too long. Up to the answer of the step, it had found no order. */
  | { kind: 'gave up'; step: number }

/** One way in which everything that was answered until now, and perhaps more, can have happened. */
interface Course<State> {
  state: State
  /** The certain steps that have happened and are not answered yet. */
  done: readonly number[]
  /** The same of uncertain steps. */
  used: readonly number[]
  /** The last step, if it has been applied for the present answer. */
  last?: { index: number; before: State }
}

/** A number of steps instead of a time, so that a verdict doesn't depend on the machine. */
const LIMIT = 20_000_000

/**
 * Searches for an order of the steps that explains every answer, in which none comes before another that was answered
 * before it was sent: "Linearizability" (Herlihy and Wing, 1990). The search is that of Wing and Gong, done just in time
 * ("Testing for linearizability", Lowe, 2017): for each answer it applies what must have happened by then, and whatever
 * else that requires. It keeps all courses that are possible, so the first answer for which none remains is the fault.
 *
 * Each uncertain step could double the courses. So at first, uncertain steps are applied only where nothing else explains
 * an answer, which finds an order of nearly every history that has one. If it finds none, everything is tried.
 *
 * @param textOf returns equal texts for equal states only
 * @param limit how many times steps may be tried
 */
export function search<State>(
  steps: readonly Step<State>[],
  initial: State,
  textOf: (state: State) => string = JSON.stringify,
  limit = LIMIT,
): Verdict<State> {
  const isCertain = steps.every(({ uncertain }) => uncertain === undefined)
  const first = new Search(steps, textOf, !isCertain, limit).run(initial)
  if (isCertain || first.kind !== 'refused') return first
  const second = new Search(steps, textOf, false, limit).run(initial)
  return second.kind === 'gave up' ? { kind: 'gave up', step: first.step } : second
}

class Search<State> {
  readonly steps: readonly Step<State>[]
  readonly textOf: (state: State) => string
  /** Whether uncertain steps are applied only where nothing else explains an answer. */
  readonly isSparing: boolean
  readonly limit: number
  tried = 0
  /** The steps that were sent and are not answered yet, in the order in which they were sent. */
  readonly certain = new Set<number>()
  readonly uncertain = new Set<number>()

  constructor(
    steps: readonly Step<State>[],
    textOf: (state: State) => string,
    isSparing: boolean,
    limit: number,
  ) {
    this.steps = steps
    this.textOf = textOf
    this.isSparing = isSparing
    this.limit = limit
  }

  run(initial: State): Verdict<State> {
    let courses: readonly Course<State>[] = [{ state: initial, done: [], used: [] }]
    for (const { index, isSent } of instantsOf(this.steps)) {
      const { uncertain, forget } = this.step(index)
      const pending = uncertain === undefined ? this.certain : this.uncertain
      if (isSent) {
        pending.add(index)
        continue
      }
      if (uncertain === undefined) {
        const after = this.answer(courses, index)
        if (this.tried > this.limit) return { kind: 'gave up', step: index }
        if (after.length === 0)
          return { kind: 'refused', step: index, before: courses.map(({ state }) => state) }
        courses = after
      }
      pending.delete(index)
      courses = courses.map(({ state, done, used }) => ({
        state: forget ? forget(state) : state,
        done: done.filter((other) => other !== index),
        used: used.filter((other) => other !== index),
      }))
    }
    return { kind: 'linearizable', ends: courses.map(({ state }) => state) }
  }

  /** The courses in which a step has happened that is now answered, with what else that requires. */
  private answer(courses: readonly Course<State>[], target: number): Course<State>[] {
    const reached: Course<State>[] = []
    const seen = new Map<string, (readonly number[])[]>()
    // Each round applies one more uncertain step than the last one, so a course comes after those that need less.
    for (let round = [...courses]; round.length > 0; ) {
      const nextRound: Course<State>[] = []
      for (let course = round.pop(); course; course = round.pop()) {
        if (this.tried > this.limit) return []
        const { settled, after } = this.certainAfter(course, target)
        const place = `${this.textOf(settled.state)} ${settled.done}`
        const earlier = seen.get(place) ?? []
        // It leaves no choice that another one doesn't leave, too.
        if (earlier.some((used) => used.every((index) => settled.used.includes(index)))) continue
        seen.set(place, [...earlier, settled.used])
        if (settled.done.includes(target)) reached.push(settled)
        else {
          round.push(...after)
          nextRound.push(...this.uncertainAfter(settled))
        }
      }
      if (this.isSparing && reached.length > 0) break
      round = nextRound
    }
    return reached
  }

  /**
   * The courses that a certain step leads to. First, whatever fits and has no effect is done: no other choice leaves more
   * room.
   */
  private certainAfter(course: Course<State>, target: number) {
    const { state, used } = course
    if (course.done.includes(target)) return { settled: course, after: [] }
    const idle: number[] = []
    const moves: { index: number; state: State }[] = []
    for (const index of this.certain) {
      if (course.done.includes(index)) continue
      for (const after of this.tryStep(index, state)) {
        if (after === state) idle.push(index)
        else moves.push({ index, state: after })
      }
    }
    const done = idle.length > 0 ? sorted([...course.done, ...idle]) : course.done
    const after = moves
      // What was done after the last step may have required it.
      .filter(
        ({ index, state }) => index !== target || idle.length > 0 || !this.isDetour(course, target, state),
      )
      .map(({ index, state: after }) => ({
        state: after,
        done: sorted([...done, index]),
        used,
        last: { index, before: state },
      }))
    return { settled: { ...course, done }, after }
  }

  private uncertainAfter({ state, done, used }: Course<State>): Course<State>[] {
    const tried = new Set<string>()
    const after: Course<State>[] = []
    for (const index of this.uncertain) {
      const { uncertain = '' } = this.step(index)
      if (used.includes(index) || tried.has(uncertain)) continue
      tried.add(uncertain)
      for (const next of this.tryStep(index, state)) {
        if (next !== state)
          after.push({ state: next, done, used: sorted([...used, index]), last: { index, before: state } })
      }
    }
    return after
  }

  /** Whether the target leads to the same state without the step before it, which may as well come after it. */
  private isDetour({ last }: Course<State>, target: number, state: State): boolean {
    if (!last) return false
    const text = this.textOf(state)
    return this.tryStep(target, last.before).some((first) =>
      this.tryStep(last.index, first).some((second) => this.textOf(second) === text),
    )
  }

  private tryStep(index: number, state: State): readonly State[] {
    this.tried++
    return this.step(index).apply(state)
  }

  private step(index: number): Step<State> {
    const step = this.steps[index]
    if (!step) throw new Error(`There is no step ${index}`)
    return step
  }
}

/**
 * When steps are sent and answered, in order. At the same time, they overlap; and an uncertain step ends last, as the
 * answer that ends it may require it.
 */
function instantsOf(steps: readonly Pick<Step<unknown>, 'sentAt' | 'answeredAt' | 'uncertain'>[]) {
  return steps
    .flatMap(({ sentAt, answeredAt, uncertain }, index) => [
      { index, at: sentAt, isSent: true, rank: 0 },
      { index, at: answeredAt, isSent: false, rank: uncertain === undefined ? 1 : 2 },
    ])
    .filter(({ at }) => at < Infinity)
    .toSorted((a, b) => a.at - b.at || a.rank - b.rank)
}

function sorted(numbers: readonly number[]): number[] {
  return numbers.toSorted((a, b) => a - b)
}
