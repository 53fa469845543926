import type { ResultSetHeader } from 'mysql2'
import type { PoolConnection } from 'mysql2/promise'
import { tripMeasure } from '../operations/measures.ts'
import { unavailable } from '../rules/errors.ts'
import { Connection } from './connection.ts'
import { isGaleraNode, readStatusOn } from './hostStatus.ts'
import type { Host } from './hosts.ts'
import type { Answer } from './session.ts'
import { causalSettings, limitSelects, maxStatementIn, sendSettings, type Values } from './settings.ts'
import { assertFits, integer } from './sql.ts'

/** How long before the end of an attempt the server ends a select itself, and the shortest time that it gets. */
const ABORT_EARLIER_MS = 200
const SHORTEST_SELECT_MS = 50

/** How long the server keeps the locks of an idle transaction, in seconds: its process may be frozen. */
const IDLE_TRANSACTION_S = 3

export const BEGIN = [`set session wait_timeout = ${integer(IDLE_TRANSACTION_S)}`, 'start transaction']
/** Begins a transaction that locks nothing, and reads everything as of this instant. */
export const BEGIN_SNAPSHOT = [
  'set transaction isolation level repeatable read',
  ...BEGIN.slice(0, -1),
  'start transaction with consistent snapshot, read only',
]
const AFTER = 'set session wait_timeout = default'
export const COMMIT = ['commit', AFTER]

/** A connection of a pool. It limits the length of statements, and the time of selects by what is left of an attempt. */
export class PooledConnection extends Connection {
  declare protected readonly driver: PoolConnection
  readonly host: Host
  /** One of an earlier incarnation may lead to a replaced server. */
  readonly incarnation: number | undefined
  readonly openedAt = performance.now()
  answeredAt = this.openedAt
  /** When the present attempt ends; undefined: selects have no time limit. */
  selectsUntil: number | undefined
  /** Variables of its server; empty: it doesn't have its settings yet. */
  #values: Values = new Map()

  constructor(driver: PoolConnection, host: Host, incarnation: number | undefined) {
    super(driver)
    this.host = host
    this.incarnation = incarnation
  }

  get isPrepared(): boolean {
    return this.#values.size > 0
  }

  get isGalera(): boolean {
    return isGaleraNode(this.#values)
  }

  /** Sends it its settings, and checks whether its server can be used. */
  async prepare(isCausal = true): Promise<void> {
    await sendSettings(this)
    const status = await readStatusOn(this)
    this.host.check(status)
    if (isCausal) for (const statement of causalSettings(status.values)) await this.query(statement)
    this.#values = status.values
  }

  /** @throws {NthError} UNAVAILABLE, REQUEST_ENTITY_TOO_LARGE: it was not sent */
  override async query<Reply = ResultSetHeader>(statement: string): Promise<Reply> {
    const text = this.selectsUntil === undefined ? statement : this.#limited(statement, this.selectsUntil)
    assertFits(text, maxStatementIn(this.#values))
    if (tripMeasure.hasSubscribers) tripMeasure.publish(undefined)
    return super.query(text)
  }

  #limited(statement: string, until: number): string {
    const leftMs = until - performance.now()
    const limitMs = Math.max(leftMs - ABORT_EARLIER_MS, SHORTEST_SELECT_MS)
    const text = limitSelects(statement, limitMs, this.#values)
    if (leftMs < SHORTEST_SELECT_MS && text !== statement)
      throw unavailable('The time for this is over; nothing was done.')
    return text
  }

  /**
   * Sends statements in one text, and returns the answer to each. After one that fails, no other is executed. To a node of
   * Galera, each is sent by itself: if another node aborts the transaction amid a text, the rest of it would be executed.
   */
  async send(statements: readonly string[]): Promise<Answer[]> {
    if (statements.length > 1 && !this.isGalera) return this.query<Answer[]>(statements.join(';\n'))
    const answers: Answer[] = []
    for (const statement of statements) answers.push(await this.query<Answer>(statement))
    return answers
  }

  /** Begins a transaction, does the work, and commits it; or rolls it back if the work fails. */
  inTransaction<T>(work: () => Promise<T>, begin: readonly string[] = BEGIN): Promise<T> {
    const { selectsUntil } = this
    // Selects of a transaction that changes rows wait for locks.
    if (begin === BEGIN) this.selectsUntil = undefined
    return this.orRollBack(async () => {
      await this.send(begin)
      const result = await work()
      await this.send(COMMIT)
      return result
    }).finally(() => {
      this.selectsUntil = selectsUntil
    })
  }

  /** Does work that begins and ends a transaction itself. Rolls it back if the work fails. */
  async orRollBack<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      // If even this fails, the connection is lost, and the server rolls the transaction back.
      await this.send(['rollback', AFTER]).catch(() => this.destroy())
      throw error
    }
  }

  ping(): Promise<void> {
    return this.driver.ping()
  }

  release(): void {
    this.driver.release()
  }
}
