/** Counts what was checked, and says what is wrong. */
export interface Checks {
  readonly passed: number
  readonly failed: number
  /** Checks that a claim holds; otherwise it is printed with what was found instead. */
  check(claim: string, holds: boolean, found?: unknown): void
}

export function createChecks(print: (line: string) => void): Checks {
  let passed = 0
  let failed = 0
  return {
    get passed() {
      return passed
    },
    get failed() {
      return failed
    },
    check(claim, holds, found = '') {
      if (holds) passed++
      else {
        failed++
        print(`FAILED: ${claim}${found === '' ? '' : `: ${JSON.stringify(found)}`}`)
      }
    },
  }
}
