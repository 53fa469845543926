import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../support/mulberry32.ts'
import type { Engine, Node } from './engine.ts'
import { nodeUsedBy, type Topology, untilWhole } from './nodes.ts'
import type { Server } from './servers.ts'

/**
 * - `kill-writer`: a node that is written to is killed, and started again
 * - `kill-other`: a node that is not written to
 * - `freeze`: a node that is written to stands still for seconds
 * - `cut`: a node that is written to loses its network to the others for seconds
 * - `rolling`: all nodes are ended and started again, one after another
 * - `kill-nth`: an Nth server is killed, and started again
 * - `kill-all`: all nodes are killed within two seconds, and started again
 * - `cut-kill-all`: the same, a second after one of them has lost its network to the others
 */
export const FAULT_KINDS = [
  'kill-writer',
  'kill-other',
  'freeze',
  'cut',
  'rolling',
  'kill-nth',
  'kill-all',
  'cut-kill-all',
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

/** What faults are caused in. */
export interface Scene {
  engine: Engine
  topology: Topology
  servers: readonly [Server, Server]
  random: Random
}

/** The kinds that need other nodes. */
const OF_CLUSTERS: readonly FaultKind[] = ['kill-other', 'cut', 'cut-kill-all']

export function isPossible(kind: FaultKind, topology: Topology): boolean {
  return topology !== 'single' || !OF_CLUSTERS.includes(kind)
}

/** Causes a fault, and repairs it. The cluster may not be whole again yet. Returns what was done. */
export async function causeFault(kind: FaultKind, scene: Scene): Promise<string> {
  const { engine, topology, servers, random } = scene
  if (kind === 'kill-nth') {
    const server = random.below(2) === 0 ? servers[0] : servers[1]
    await server.restart('SIGKILL')
    return server.name
  }
  if (kind === 'rolling') {
    for (const node of random.sample(engine.nodes, engine.nodes.length)) {
      await engine.harm('stop', node)
      await engine.harm('node', node)
      await untilWhole(engine.nodes, topology)
      await pause(2000)
    }
    return 'all nodes'
  }
  if (kind === 'kill-all' || kind === 'cut-kill-all') {
    const [first, ...others] = random.sample(engine.nodes, engine.nodes.length)
    if (!first) throw new Error('The engine has no node')
    if (kind === 'cut-kill-all') {
      await engine.harm('cut', first)
      await pause(1000)
    }
    // The one that was cut off is killed last: it may have commits of its own by then.
    for (const node of [...others, first]) {
      await engine.harm('kill', node)
      await pause(random.below(600))
    }
    await engine.startAgain()
    return 'all nodes'
  }
  const node = await (kind === 'kill-other' ? otherNode(scene) : writingNode(scene))
  if (kind === 'freeze') {
    const ms = 3000 + random.below(6000)
    await engine.harm('freeze', node)
    await pause(ms)
    await engine.harm('thaw', node)
    return `node ${node.number}, ${ms} ms`
  }
  if (kind === 'cut') {
    // Longer than a member is waited for before the others go on without it.
    const ms = 8000 + random.below(8000)
    await engine.harm('cut', node)
    await pause(ms)
    await engine.harm('heal', node)
    return `node ${node.number}, ${ms} ms`
  }
  const ms = random.below(4000)
  await engine.harm('kill', node)
  await pause(ms)
  await engine.harm('node', node)
  return `node ${node.number}, started again after ${ms} ms`
}

/** The node that each server writes to. */
export async function writingNodes({ engine, servers }: Scene): Promise<[Node, Node]> {
  const [one, other] = await Promise.all(servers.map(({ user }) => nodeUsedBy(user, engine.nodes)))
  if (!one || !other) throw new Error('An Nth server has no connection to any node')
  return [one, other]
}

async function writingNode(scene: Scene): Promise<Node> {
  const [one, other] = await writingNodes(scene)
  return scene.random.below(2) === 0 ? one : other
}

async function otherNode(scene: Scene): Promise<Node> {
  const used = await writingNodes(scene)
  const [node] = scene.random.sample(
    scene.engine.nodes.filter((node) => !used.includes(node)),
    1,
  )
  if (!node) throw new Error('All nodes are written to')
  return node
}
