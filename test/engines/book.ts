/** What callers were answered of one counter, or sequence group, that only counts up from 0. */
export interface Account {
  /** Each answer took the numbers above `after`, up to `upTo`. */
  answers: { after: number; upTo: number }[]
  /** The sum of the requests whose callers never learnt whether they were applied. */
  unknown: number
}

/** What callers were answered, by kind of work and name. */
export interface Book {
  accounts: ReadonlyMap<string, ReadonlyMap<string, Account>>
  answered(kind: string, name: string, after: number, upTo: number): void
  unknown(kind: string, name: string, amount: number): void
}

export function createBook(): Book {
  const accounts = new Map<string, Map<string, Account>>()

  function accountOf(kind: string, name: string): Account {
    const ofKind = accounts.get(kind) ?? new Map<string, Account>()
    accounts.set(kind, ofKind)
    const account = ofKind.get(name) ?? { answers: [], unknown: 0 }
    ofKind.set(name, account)
    return account
  }

  return {
    accounts,
    answered: (kind, name, after, upTo) => void accountOf(kind, name).answers.push({ after, upTo }),
    unknown(kind, name, amount) {
      accountOf(kind, name).unknown += amount
    },
  }
}

/** How an account compares with the number that is stored. */
export interface Balance {
  /** Numbers that two callers were given. */
  twice: number
  /** Numbers that a caller was given and that are not in what is stored. */
  lost: number
  /** Numbers that are stored, and that nobody can have requested. */
  excess: number
}

export function balanceOf({ answers, unknown }: Account, stored: number): Balance {
  let twice = 0
  let lost = 0
  let given = 0
  let highest = 0
  for (const { after, upTo } of answers.toSorted((a, b) => a.after - b.after)) {
    twice += Math.max(0, Math.min(highest, upTo) - after)
    lost += Math.max(0, upTo - Math.max(after, stored))
    given += upTo - after
    highest = Math.max(highest, upTo)
  }
  return { twice, lost, excess: Math.max(0, stored - (given - twice) - unknown) }
}
