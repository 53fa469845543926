import { NthError, unavailable } from './errors.ts'

/**
 * Whose work waits: an identity (a key, the subject of a token, ADMIN or all anonymous callers) at one of its addresses.
 */
export interface Owner {
  readonly identity: string
  readonly address: string
  /** From when on its time limit counts, on the clock of `performance.now()`, in milliseconds. Default: now. */
  readonly arrivedAt?: number | undefined
  /** Whether nobody needs its work any more. */
  readonly hasLeft: boolean
}

/** The owner of what comes from no request. */
export const NOBODY: Pick<Owner, 'identity' | 'address'> = { identity: '', address: '' }

/** A text that is the same for all requests of an owner. */
export function ownerText({ identity, address } = NOBODY): string {
  return `${identity}\n${address}`
}

/** All that share some work, which has the turn of the one that waits least. */
export class SharedOwner implements Owner {
  readonly identity = ''
  readonly address = ''
  readonly arrivedAt: number | undefined
  readonly members = new Set<Owner>()
  /** Called with each member that comes later. */
  readonly onJoined = new Set<(member: Owner) => void>()

  /** @param arrivedAt as of an owner */
  constructor(arrivedAt?: number) {
    this.arrivedAt = arrivedAt
  }

  get hasLeft() {
    for (const { hasLeft } of this.members) if (!hasLeft) return false
    return true
  }

  join(member: Owner): void {
    this.members.add(member)
    for (const listener of this.onJoined) listener(member)
  }
}

/** Work that waits for its turn. */
interface Waiting<Work, Result> {
  work: Work
  owner: Owner
  /** Whether it was started or given up. It may still be in queues. */
  isOver: boolean
  /** Ends the wait with a result. */
  start(result: Result | Promise<Result>): void
  giveUp(reason: NthError): void
}

/**
 * Items that wait. Turns go round the identities that have some, and the turns of an identity round its addresses. So the
 * next item of an owner waits for at most one item of each other identity, and of each other address of its own.
 */
export class Rounds<Item> {
  /** The next turn is that of the first identity, and of its first address. */
  readonly #identities = new Map<string, Map<string, Item[]>>()

  add({ identity, address }: Pick<Owner, 'identity' | 'address'>, item: Item): void {
    const addresses = this.#identities.get(identity) ?? new Map<string, Item[]>()
    this.#identities.set(identity, addresses)
    const queue = addresses.get(address)
    if (queue) queue.push(item)
    else addresses.set(address, [item])
  }

  /**
   * Takes the item whose turn it is; undefined: there is none.
   *
   * @param mayHaveTurn whether an identity may have a turn now
   * @param nextOf takes an item of a queue; undefined: the queue has none left
   */
  take(
    mayHaveTurn: (identity: string) => boolean = () => true,
    nextOf = (queue: Item[]): Item | undefined => queue.shift(),
  ): Item | undefined {
    for (const [identity, addresses] of this.#identities) {
      if (!mayHaveTurn(identity)) continue
      for (const [address, queue] of addresses) {
        const item = nextOf(queue)
        addresses.delete(address)
        if (queue.length > 0) addresses.set(address, queue)
        if (item === undefined) continue
        this.#identities.delete(identity)
        if (addresses.size > 0) this.#identities.set(identity, addresses)
        return item
      }
      this.#identities.delete(identity)
    }
    return undefined
  }

  has(identity: string): boolean {
    return this.#identities.has(identity)
  }

  /** How many addresses of an owner's identity have items, and how many items its own address has. */
  ahead({ identity, address }: Owner): number {
    const addresses = this.#identities.get(identity)
    return (addresses?.size ?? 0) + (addresses?.get(address)?.length ?? 0)
  }
}

/** Work that waits for its turn, until its time is over or its owner has left. */
export class Turns<Work, Result> {
  readonly #rounds = new Rounds<Waiting<Work, Result>>()

  /**
   * Waits for a turn. Returns what the work was started with.
   *
   * @param work for whoever takes the turns
   * @throws {NthError} UNAVAILABLE after the deadline; BAD_REQUEST, which nobody receives, if the owner has left
   */
  wait(owner: Owner, deadline: number, work: Work): Promise<Result> {
    return new Promise((resolve, reject) => {
      const shared = owner instanceof SharedOwner ? owner : undefined
      const join = (member: Owner) => this.#rounds.add(member, waiting)
      const end = () => {
        waiting.isOver = true
        clearTimeout(timer)
        shared?.onJoined.delete(join)
      }
      const waiting: Waiting<Work, Result> = {
        work,
        owner,
        isOver: false,
        start(result) {
          end()
          resolve(result)
        },
        giveUp(reason) {
          end()
          reject(reason)
        },
      }
      const tooLate = () => waiting.giveUp(unavailable('Too many requests are waiting. Nothing was done.'))
      const timer = setTimeout(tooLate, Math.max(0, deadline - performance.now()))
      shared?.onJoined.add(join)
      this.#rounds.add(shared ? this.#leastWaiting(shared) : owner, waiting)
    })
  }

  /** Takes the work whose turn it is, of identities that may have one now; undefined: none waits. */
  take(mayHaveTurn?: (identity: string) => boolean): Waiting<Work, Result> | undefined {
    return this.#rounds.take(mayHaveTurn, nextOf)
  }

  /** Whether an identity may have work that waits. */
  has(identity: string): boolean {
    return this.#rounds.has(identity)
  }

  #leastWaiting(shared: SharedOwner): Owner {
    let least: Owner = shared
    let shortest = Number.POSITIVE_INFINITY
    for (const member of shared.members) {
      const ahead = this.#rounds.ahead(member)
      if (ahead >= shortest) continue
      least = member
      shortest = ahead
      if (ahead === 0) break
    }
    return least
  }
}

/** Takes the first that is still waited for. */
function nextOf<Work, Result>(queue: Waiting<Work, Result>[]): Waiting<Work, Result> | undefined {
  for (let waiting = queue.shift(); waiting; waiting = queue.shift()) {
    if (waiting.isOver) continue
    if (!waiting.owner.hasLeft) return waiting
    // No failure of the service, which would be logged as one and raise an alert.
    waiting.giveUp(new NthError('BAD_REQUEST', 'The client has left. Nothing was done.'))
  }
  return undefined
}
