/** Counts what was checked, and says what is wrong. */
export class Checks {
  passed = 0
  failed = 0
  readonly #print: (line: string) => void

  constructor(print: (line: string) => void) {
    this.#print = print
  }

  /** Checks that a claim holds; otherwise it is printed with what was found instead. */
  check(claim: string, holds: boolean, found: unknown = ''): void {
    if (holds) this.passed++
    else {
      this.failed++
      this.#print(`FAILED: ${claim}${found === '' ? '' : `: ${JSON.stringify(found)}`}`)
    }
  }
}
