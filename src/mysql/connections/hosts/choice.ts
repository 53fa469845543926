import { UnusableDatabaseError } from '../../errors.ts'
import type { ServerStatus } from '../../hostStatus.ts'
import { hostOf, type Target } from '../target.ts'

/** What decides which servers may be used. */
export interface ChoiceRules {
  /** How many servers the database has, by its URL. */
  hosts: number
  /** The cluster that was first reached; empty: it was in none. */
  cluster: string | undefined
  acceptsLostCommits: boolean
}

/** A server that answered, and what it says of itself. */
export interface Asked {
  target: Target
  status: ServerStatus
}

/** Members of a cluster see a change of it one after another: then asking again helps. */
export class PartedClusterError extends UnusableDatabaseError {}

const NO_CLUSTER =
  'The database servers are not in a Galera cluster or replication group: when one takes over from another, it may lack commits, and their numbers are issued again. Set NTH_ACCEPT_LOST_COMMITS=1 to accept that, or give one server'

/** Why a server must not be used; undefined: it may. */
export function problemOf(status: ServerStatus, rules: ChoiceRules): string | undefined {
  const { problem, members, isReadOnly } = status
  const { hosts, cluster, acceptsLostCommits } = rules
  if (cluster !== undefined && status.cluster !== cluster && !acceptsLostCommits)
    return status.cluster === '' ? 'it has left its cluster' : 'it is in another cluster than before'
  if (problem) return problem
  const known = Math.max(status.knownMembers, hosts)
  if (status.cluster !== '' && members * 2 <= known)
    return `its cluster has ${members} of ${known} members, which is no majority`
  // A server that is alone can still be read.
  if (isReadOnly && (hosts > 1 || status.cluster !== '')) return 'it is read-only'
  return undefined
}

/**
 * Chooses from the servers that may be used, which are at least one. All processes choose alike from the same answers.
 *
 * @param latest the one in use, which is kept while it may be
 * @throws {UnusableDatabaseError} if numbers could be issued twice
 */
export function choose(usable: readonly Asked[], latest: Target | undefined, rules: ChoiceRules): Asked {
  const clustered = usable.filter(({ status }) => status.cluster !== '')
  const candidates = clustered.length > 0 ? ofOneView(clustered) : theOnlyOne(usable, rules)
  const current = candidates.filter(({ status }) => !status.isBehind)
  // One that is behind, as another node copies it, serves if there is no other.
  const best = current.length > 0 ? current : candidates
  return best.find(({ target }) => target === latest) ?? (best[0] as Asked)
}

function ofOneView(clustered: readonly Asked[]): readonly Asked[] {
  const views = new Set(clustered.map(({ status }) => `${status.cluster} ${status.view}`))
  if (views.size === 1) return clustered
  throw new PartedClusterError(`The database servers ${listed(clustered)} are in clusters that have parted`)
}

/** Of servers that are not in a cluster, one must be writable: with two, numbers would be issued twice. */
function theOnlyOne(usable: readonly Asked[], { hosts, acceptsLostCommits }: ChoiceRules): readonly Asked[] {
  if (hosts === 1) return usable
  if (!acceptsLostCommits) throw new UnusableDatabaseError(NO_CLUSTER, { isFinal: true })
  if (usable.length === 1) return usable
  throw new UnusableDatabaseError(
    `The database servers ${listed(usable)} are all writable, and not in a cluster`,
  )
}

function listed(asked: readonly Asked[]): string {
  return asked.map(({ target }) => hostOf(target)).join(', ')
}
