import { LostAnswerError } from '../../src/mysql/errors.ts'
import type { ServerStatus } from '../../src/mysql/hostStatus.ts'
import {
  type Answer,
  FailedStatement,
  type ReconnectingSessionOptions,
  type Session,
} from '../../src/mysql/session.ts'
import type { SimulatedServer } from './database.ts'
import type { Machine } from './scheduler.ts'

/** What happens to the next text of some kind that a machine sends. */
export interface TripFault {
  kind: /** The connection ends before the text arrives. */
    | 'lost before'
    /** The text is executed, and the connection ends before the answer arrives. */
    | 'lost after'
    /** The connection ends for the machine; the text arrives later, in the session that the server still has. */
    | 'late'
    /** The text is executed, and no answer comes. */
    | 'silent'
    /** The transaction is rolled back in favour of another. */
    | 'conflict'
  /** Which texts: those that commit, those that read a fence, or all. */
  text: 'commit' | 'look' | 'any'
  /** How late it is. */
  delayMs: number
}

export interface NetworkOptions {
  server: SimulatedServer
  machine: Machine
  /** Faults of this machine's next texts: each happens once. */
  faults: TripFault[]
  /** Time of one way. */
  latencyMs: number
  /** Breaks the statements that are sent, to see that this is found. */
  breakStatement?: ((statement: string) => string) | undefined
}

/** Opens sessions of a machine with the simulated server. */
export function sessionsOf(options: NetworkOptions): ReconnectingSessionOptions['openSession'] {
  const { server, machine, latencyMs } = options
  const { scheduler, random } = server
  const wayMs = () => latencyMs * (0.5 + random.fraction())

  return async (host, { timeLimitMs, idleLimitS }) => {
    await scheduler.pause(2 * wayMs(), machine)
    if (server.isDown || machine.cutUntil > scheduler.nowMs) throw socketError('ECONNREFUSED')
    const remote = server.open(machine)
    let isOpen = true
    /** When what was sent last arrives: nothing overtakes it. */
    let arrivesAt = 0
    let outstanding: Promise<unknown> = Promise.resolve()
    /** Rejects what is in flight. */
    let lose: (error: Error) => void = () => undefined

    /** Passes something on to the server, in order. */
    function arrive(delayMs: number, work: () => void): void {
      arrivesAt = Math.max(arrivesAt, scheduler.nowMs + delayMs, machine.cutUntil)
      scheduler.after(arrivesAt - scheduler.nowMs, work)
    }

    function drop(): void {
      if (!isOpen) return
      isOpen = false
      arrive(wayMs(), () => remote.run([]).then(() => remote.end()))
      lose(socketError('ECONNRESET'))
    }

    function sendNow(statements: readonly string[]): Promise<Answer[]> {
      if (!isOpen) return Promise.reject(Object.assign(new Error('It is closed'), { fatal: true }))
      const fault = takeFault(options.faults, statements)
      const broken = options.breakStatement ? statements.map(options.breakStatement) : statements
      return new Promise((resolve, reject) => {
        const expire = () => fail(new LostAnswerError('The database did not answer in time'))
        const cancel = scheduler.after(timeLimitMs, expire, machine, 'timer')
        lose = fail
        const isLate = fault?.kind === 'late'
        if (fault?.kind === 'lost before' || isLate)
          scheduler.after(wayMs(), () => fail(socketError('ECONNRESET')), machine)
        if (fault?.kind !== 'lost before') arrive(isLate ? fault.delayMs : wayMs(), () => void execute())

        async function execute(): Promise<void> {
          const conflictAt = fault?.kind !== 'conflict' ? -1 : random.below(2) * (statements.length - 1)
          const answers = await remote.run(broken, conflictAt)
          if (isLate || fault?.kind === 'silent') return
          const delayMs = Math.max(wayMs(), machine.cutUntil - scheduler.nowMs)
          scheduler.after(delayMs, () => receive(answers), machine)
        }

        function receive(answers: Answer[] | FailedStatement | undefined): void {
          if (!isOpen) return
          const isLost = !answers || fault?.kind === 'lost after'
          if (isLost) fail(socketError('ECONNRESET'))
          else {
            cancel()
            lose = () => undefined
            remote.confirm()
            if (answers instanceof FailedStatement) reject(answers)
            else resolve(answers)
          }
        }

        function fail(error: Error): void {
          cancel()
          lose = () => undefined
          drop()
          reject(error)
        }
      })
    }

    /** The server ends a session that is idle for too long, with its locks. */
    function endIfIdle(): void {
      if (remote.isEnded) return
      const leftMs = remote.usedAt + 1000 * idleLimitS - scheduler.nowMs
      if (leftMs <= 0 && !remote.isRunning) remote.end()
      else scheduler.after(Math.max(leftMs, 100), endIfIdle)
    }
    endIfIdle()

    // What is not read in a simulation is missing.
    const identity = {
      connectionId: remote.id,
      server: 'simulated',
      startedAt: server.startedAt,
      uptimeMs: server.uptimeMs,
      cluster: '',
    } as ServerStatus
    const session: Session = {
      host,
      identity,
      isGalera: false,
      canPrepare: true,
      isOpen: () => isOpen,
      /** One text after another, as the driver does. */
      send(statements) {
        const answer = outstanding.then(() => sendNow(statements))
        outstanding = answer.catch(() => undefined)
        return answer
      },
      execute(statement, literals) {
        let index = 0
        const text = statement.replace(/cast\(\? as unsigned\)|\?/g, () => literals[index++] ?? '')
        return session.send([text])
      },
      drop,
      close: async () => drop(),
    }
    return session
  }
}

/** Takes the fault that a text meets, if any. */
function takeFault(faults: TripFault[], statements: readonly string[]): TripFault | undefined {
  const isLook = statements.some((statement) => statement.includes('epoch = last_insert_id'))
  const commits = statements.at(-1) === 'commit' || statements[0]?.startsWith('update fence straight_join')
  const kind = isLook ? 'look' : commits ? 'commit' : 'any'
  const index = faults.findIndex(({ text }) => text === kind || text === 'any')
  return index < 0 ? undefined : faults.splice(index, 1)[0]
}

function socketError(code: string): Error {
  return Object.assign(new Error(code), { code, errno: -1 })
}
