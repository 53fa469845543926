/** What happened at one instant after it was sent and before it was answered; or, if it is uncertain, perhaps never. */
export interface Step<State> {
  sentAt: number
  /** Of an uncertain step: when it has surely happened, or can have no effect any more. Infinity: never. */
  answeredAt: number
  /** Uncertain steps with the same text do the same: it doesn't matter which of them happened. Undefined: certain. */
  uncertain?: string | undefined
  /** The states after it: none if its answer doesn't fit there; the same object if it fits and has no effect. */
  apply(state: State): readonly State[]
  /** Whether it never stands in the way of others: as soon as it fits, it may as well happen. */
  isHarmless?: boolean | undefined
  /** Whether it fits no later state, either. */
  isPast?: ((state: State) => boolean) | undefined
  /** Forgets what no later step needs, as soon as this one is answered. */
  forget?: ((state: State) => State) | undefined
}

export type Verdict<State> =
  | { kind: 'linearizable'; end: State }
  /** No order explains all answers up to that of the step. `before`: some states that are possible before it. */
  | { kind: 'refused'; step: number; before: readonly State[] }
  /** The search took too long. It found an order of what was answered before the step. */
  | { kind: 'gave up'; step: number }

/** A last step: what is there in the end, found after all others were answered. */
export function finds<State>(isFound: (state: State) => boolean, end: number): Step<State> {
  return { sentAt: end + 1, answeredAt: end + 1, apply: (state) => (isFound(state) ? [state] : []) }
}

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

/** A number of trials instead of a time, so that a verdict doesn't depend on the machine: of each step, and besides. */
const TRIALS_EACH = 200
const TRIALS_MORE = 500_000

/** How many states before a fault are kept. */
const SHOWN = 3

/**
 * Searches for an order of the steps that explains every answer, in which none comes before another that was answered
 * before it was sent: "Linearizability" (Herlihy and Wing, 1990). The search is that of Wing and Gong, done just in time
 * ("Testing for linearizability", Lowe, 2017): for each answer it applies what must have happened by then, and whatever
 * else that requires. If an answer can't be explained, it goes back to the one before, and tries another way there.
 *
 * Each uncertain step could double the ways. So they are applied only after everything else was tried, one by one.
 *
 * @param textOf returns equal texts for equal states only
 * @param limit how many times steps may be tried
 */
export function search<State>(
  steps: readonly Step<State>[],
  initial: State,
  textOf: (state: State) => string = JSON.stringify,
  limit = TRIALS_EACH * steps.length + TRIALS_MORE,
): Verdict<State> {
  return new Search(steps, textOf, limit).run(initial)
}

/** A course, and those that a certain step of it leads to. */
interface Settled<State> {
  settled: Course<State>
  after: Course<State>[]
}

class Search<State> {
  readonly steps: readonly Step<State>[]
  readonly textOf: (state: State) => string
  readonly limit: number
  readonly instants: ReturnType<typeof instantsOf>
  /** How many instants have passed. */
  at = 0
  /** The steps that were sent by then and are not answered yet. */
  readonly certain = new Set<number>()
  readonly uncertain = new Set<number>()
  /** How many times steps were tried. */
  tried = 0

  constructor(steps: readonly Step<State>[], textOf: (state: State) => string, limit: number) {
    this.steps = steps
    this.textOf = textOf
    this.limit = limit
    this.instants = instantsOf(steps)
  }

  run(initial: State): Verdict<State> {
    /** The answers that are explained, each with the other ways to do so. */
    const answers: { at: number; ways: Iterator<Course<State>> }[] = []
    const courses = new Map<number, Courses<State>>()
    let furthest: { at: number; step: number; before: readonly State[] } = { at: -1, step: -1, before: [] }
    let next: Course<State> | undefined = { state: initial, done: [], used: [] }
    while (true) {
      if (next) {
        const course = this.toAnswer(next)
        const answer = this.instants[this.at]
        if (!answer) return { kind: 'linearizable', end: course.state }
        const { at } = this
        const there = courses.get(at) ?? new Courses(this.textOf)
        courses.set(at, there)
        if (there.isNew(course)) {
          const before = at === furthest.at ? furthest.before.slice(0, SHOWN - 1) : []
          if (at >= furthest.at) furthest = { at, step: answer.index, before: [course.state, ...before] }
          answers.push({ at, ways: this.explain(course, answer.index) })
        }
      }
      const last = answers.at(-1)
      if (!last) return { kind: 'refused', step: furthest.step, before: furthest.before }
      this.backTo(last.at)
      const way = last.ways.next()
      if (this.tried > this.limit) return { kind: 'gave up', step: furthest.step }
      if (way.done) answers.pop()
      next = way.done ? undefined : this.pass(way.value)
    }
  }

  /** Lets time pass until a certain step is answered, or until the end. */
  private toAnswer(from: Course<State>): Course<State> {
    let course = from
    for (
      let next = this.instants[this.at];
      next && (next.isSent || !this.isCertain(next.index));
      next = this.instants[this.at]
    )
      course = this.pass(course)
    return course
  }

  /** Lets the next instant pass. */
  private pass(course: Course<State>): Course<State> {
    const { index, isSent } = this.instants[this.at++] ?? { index: -1, isSent: true }
    const pending = this.isCertain(index) ? this.certain : this.uncertain
    if (isSent) {
      pending.add(index)
      return course
    }
    pending.delete(index)
    const { forget } = this.step(index)
    const { state, done, used } = course
    return {
      state: forget ? forget(state) : state,
      done: done.filter((other) => other !== index),
      used: used.filter((other) => other !== index),
    }
  }

  private backTo(at: number): void {
    while (this.at > at) {
      const { index, isSent } = this.instants[--this.at] ?? { index: -1, isSent: true }
      const pending = this.isCertain(index) ? this.certain : this.uncertain
      if (isSent) pending.delete(index)
      else pending.add(index)
    }
  }

  /** The courses in which a step has happened that is now answered, with what else that requires. */
  private *explain(start: Course<State>, target: number): Generator<Course<State>> {
    const courses = new Courses(this.textOf)
    // Each round applies one more uncertain step than the last one, so a course comes after those that need less.
    for (let round = [start]; round.length > 0; ) {
      const unexplained: Course<State>[] = []
      for (let course = round.pop(); course && this.tried <= this.limit; course = round.pop()) {
        const { settled, after = [] } = this.certainAfter(course, target) ?? {}
        if (!settled || !courses.isNew(settled)) continue
        if (settled.done.includes(target)) yield settled
        else {
          round.push(...after)
          unexplained.push(settled)
        }
      }
      round = unexplained.flatMap((course) => this.uncertainAfter(course))
    }
  }

  /**
   * The courses that a certain step leads to. First, whatever fits and has no effect is done: no other choice leaves more
   * room. Undefined: a certain step can't happen any more.
   */
  private certainAfter(course: Course<State>, target: number): Settled<State> | undefined {
    const { state, used } = course
    if (course.done.includes(target)) return { settled: course, after: [] }
    const idle: number[] = []
    const moves: { index: number; state: State }[] = []
    for (const index of this.certain) {
      const { isHarmless } = this.step(index)
      const [harmless] = isHarmless && !course.done.includes(index) ? this.tryStep(index, state) : []
      if (harmless)
        return this.certainAfter({ state: harmless, done: sorted([...course.done, index]), used }, target)
    }
    for (const index of this.certain) {
      if (course.done.includes(index)) continue
      if (this.step(index).isPast?.(state)) return undefined
      for (const after of this.tryStep(index, state)) {
        if (after === state) idle.push(index)
        else moves.push({ index, state: after })
      }
    }
    const done = idle.length > 0 ? sorted([...course.done, ...idle]) : course.done
    // The last one is tried first.
    const isLast = ({ index }: { index: number }) => Number(index === target)
    const after = moves
      .toSorted((a, b) => isLast(a) - isLast(b))
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

  private isCertain(index: number): boolean {
    return this.step(index).uncertain === undefined
  }

  private step(index: number): Step<State> {
    const step = this.steps[index]
    if (!step) throw new Error(`There is no step ${index}`)
    return step
  }
}

/** Courses that were tried at one place. */
class Courses<State> {
  private readonly textOf: (state: State) => string
  /** By state and certain steps: the uncertain ones. */
  private readonly used = new Map<string, (readonly number[])[]>()

  constructor(textOf: (state: State) => string) {
    this.textOf = textOf
  }

  /** Notes a course, unless another one leaves as many choices. */
  isNew({ state, done, used }: Course<State>): boolean {
    const place = `${this.textOf(state)} ${done}`
    const earlier = this.used.get(place) ?? []
    if (earlier.some((less) => less.every((index) => used.includes(index)))) return false
    this.used.set(place, [...earlier, used])
    return true
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
