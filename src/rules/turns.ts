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
 * Turns go round the identities that wait, and the turns of an identity round its addresses. So the next work of an owner
 * waits for at most one piece of work of each other identity, and of each other address of its own.
 */
export class Turns<Work, Result> {
  /** The next turn is that of the first identity, and of its first address. */
  readonly #identities = new Map<string, Map<string, Waiting<Work, Result>[]>>()

  /**
   * Waits for a turn. Returns what the work was started with.
   *
   * @param work for whoever takes the turns
   * @throws {NthError} UNAVAILABLE after the deadline; BAD_REQUEST, which nobody receives, if the owner has left
   */
  wait(owner: Owner, deadline: number, work: Work): Promise<Result> {
    return new Promise((resolve, reject) => {
      const shared = owner instanceof SharedOwner ? owner : undefined
      const join = (member: Owner) => this.#enqueue(member, waiting)
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
      this.#enqueue(shared ? this.#leastWaiting(shared) : owner, waiting)
    })
  }

  /** Takes the work whose turn it is, of identities that may have one now; undefined: none waits. */
  take(mayHaveTurn: (identity: string) => boolean = () => true): Waiting<Work, Result> | undefined {
    for (const [identity, addresses] of this.#identities) {
      if (!mayHaveTurn(identity)) continue
      for (const [address, queue] of addresses) {
        const waiting = nextOf(queue)
        addresses.delete(address)
        if (queue.length > 0) addresses.set(address, queue)
        if (!waiting) continue
        this.#identities.delete(identity)
        if (addresses.size > 0) this.#identities.set(identity, addresses)
        return waiting
      }
      this.#identities.delete(identity)
    }
    return undefined
  }

  /** Whether an identity may have work that waits. */
  has(identity: string): boolean {
    return this.#identities.has(identity)
  }

  #enqueue({ identity, address }: Owner, waiting: Waiting<Work, Result>): void {
    const addresses = this.#identities.get(identity) ?? new Map<string, Waiting<Work, Result>[]>()
    this.#identities.set(identity, addresses)
    const queue = addresses.get(address)
    if (queue) queue.push(waiting)
    else addresses.set(address, [waiting])
  }

  #leastWaiting(shared: SharedOwner): Owner {
    let least: Owner = shared
    let shortest = Number.POSITIVE_INFINITY
    for (const member of shared.members) {
      const addresses = this.#identities.get(member.identity)
      const own = addresses?.get(member.address)?.length ?? 0
      const ahead = own + (addresses?.size ?? 0)
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
