/** The numbers that were handed out of each name, and what they should be. */
export interface PeriodTotal {
  /** Notes a number of the name at a place. */
  note(place: number, value: number): void
  /**
   * Compares all that was noted with the values of the rows afterwards.
   *
   * @throws {Error} unless the numbers of each name are unique, without a gap, and end at its row's value
   */
  check(after: readonly number[]): void
}

/** With `mayRepeat`, only how many numbers were handed out must be right. */
export function openTally(
  names: readonly string[],
  before: readonly number[],
  mayRepeat = false,
): PeriodTotal {
  const noted = names.map((): number[] => [])
  return {
    note: (place, value) => void noted[place]?.push(value),

    check(after) {
      for (const [place, name] of names.entries()) {
        const values = Float64Array.from(noted[place] ?? []).sort()
        const one = { values, before: before[place] ?? 0, after: after[place] }
        const faults = [...(mayRepeat ? [] : repeatsIn(one)), ...lossesIn(one)]
        if (faults.length > 0) throw new Error(`${name}: ${faults.slice(0, FAULTS_SHOWN).join('; ')}.`)
      }
    },
  }
}

const FAULTS_SHOWN = 5

interface Numbers {
  values: Float64Array
  before: number
  after: number | undefined
}

function* repeatsIn({ values, before }: Numbers): Iterable<string> {
  let last = before
  for (const value of values) {
    if (value === last) yield `${value} was handed out twice`
    else if (value !== last + 1) yield `${value} came after ${last}`
    last = value
  }
}

function* lossesIn({ values, before, after }: Numbers): Iterable<string> {
  if (after !== before + values.length) {
    yield `the row holds ${after}, not ${before} and the ${values.length} that were answered`
  }
}
