import type { ResultSetHeader } from 'mysql2'
import type { Connection as DriverConnection } from 'mysql2/promise'

export class Connection {
  protected readonly driver: DriverConnection

  constructor(driver: DriverConnection) {
    this.driver = driver
  }

  /** Sends a statement, or several in one text, and returns the answer, or the list of answers. */
  async query<Reply = ResultSetHeader>(text: string): Promise<Reply> {
    const [answer] = await this.driver.query(text)
    // The caller knows what its statement returns; the driver doesn't.
    return answer as Reply
  }

  /** Sends a select. `Row` has the types of its columns. */
  select<Row = unknown>(statement: string): Promise<Row[]> {
    return this.query<Row[]>(statement)
  }

  end(): Promise<void> {
    return this.driver.end()
  }

  destroy(): void {
    this.driver.destroy()
  }
}
