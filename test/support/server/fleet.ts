import { expect } from 'vitest'
import { soon } from '../soon.ts'
import { type NthProcess, startNth } from './nthProcess.ts'

/** A server, as a proxy that asks for `/ready` knows it. */
export interface Member {
  server: NthProcess
  /** Calls that wait for their answer. */
  waiting: number
  answered: number
}

/** Servers of several versions on one database. Calls go to each in turn. */
export interface Fleet {
  members: readonly Member[]
  /** Sends an operation to the next server; it must succeed. */
  ask: NthProcess['ask']
  start(directory: string): Promise<Member>
  /** Starts a server, then ends another: it gets no more calls, and a SIGTERM when it has answered all. */
  replace(leaving: Member, directory: string): Promise<Member>
}

export function createFleet(environment: Record<string, string>): Fleet {
  let members: Member[] = []
  let turn = 0

  async function ask(text: string, variables?: Record<string, unknown>) {
    const member = members[turn++ % members.length]
    if (!member) throw new Error('No server runs.')
    member.waiting += 1
    try {
      const data = await member.server.ask(text, variables)
      member.answered += 1
      return data
    } finally {
      member.waiting -= 1
    }
  }

  async function start(directory: string): Promise<Member> {
    const member = { server: await startNth(environment, [], directory), waiting: 0, answered: 0 }
    members.push(member)
    return member
  }

  return {
    get members() {
      return members
    },
    ask,
    start,
    async replace(leaving, directory) {
      const started = await start(directory)
      members = members.filter((member) => member !== leaving)
      await expect.poll(() => leaving.waiting, { interval: 5 }).toBe(0)
      leaving.server.child.kill('SIGTERM')
      expect(await soon('it ends', leaving.server.exited)).toBe(0)
      expect(leaving.server.errors()).toBe('')
      return started
    },
  }
}
