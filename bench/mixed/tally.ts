/** What clients counted. Two can be added up. */
export interface Counted {
  /** Answers, by the worker (its place), kind of operation and code, with spaces between them. */
  answers: Record<string, number>
  /** All numbers that were issued, by what issued them. */
  numbers: Record<string, number[]>
}

export type Tally = ReturnType<typeof createTally>

export function createTally() {
  const counted: Counted = { answers: {}, numbers: {} }
  return {
    counted,

    number(of: string, value: number): void {
      counted.numbers[of] ??= []
      counted.numbers[of].push(value)
    },

    answers(worker: number, answers: ReadonlyMap<string, number>): void {
      for (const [kind, count] of answers) {
        const key = `${worker} ${kind}`
        counted.answers[key] = (counted.answers[key] ?? 0) + count
      }
    },
  }
}

export function sumOf(all: readonly Counted[]): Counted {
  const sum: Counted = { answers: {}, numbers: {} }
  for (const { answers, numbers } of all) {
    for (const [key, count] of Object.entries(answers)) sum.answers[key] = (sum.answers[key] ?? 0) + count
    for (const [of, values] of Object.entries(numbers))
      sum.numbers[of] = (sum.numbers[of] ?? []).concat(values)
  }
  return sum
}
